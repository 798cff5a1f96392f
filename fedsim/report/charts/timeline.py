"""A timeline of some devices: when each condition held, when they were in a session, when they cooled down."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.common.arrays import Floats
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, duration, percent
from fedsim.report.charts.availability import clock_of
from fedsim.report.charts.marks import INK, SERIES, clock_axis, finish, spans, time_axis, time_scale
from fedsim.report.tables import Table
from fedsim.simulation.world import free_round

_DEVICES = 6  # devices shown at most
_WINDOW = 2 * DAY_S  # seconds of simulated time shown at most, from the start
_CONDITIONS = ("charging", "network", "idle", "available")  # in the order of their rows; any other comes after them

_Spans: TypeAlias = tuple[Floats, Floats]
"""Intervals of time in order: where each starts and where it ends, in the timeline's unit."""


@dataclass(frozen=True)
class Device:
    """One device within the window."""

    client: int
    conditions: tuple[tuple[str, _Spans], ...]  # (condition, when it held) for each that the scenario requires
    sessions: _Spans
    cooling: _Spans  # when it cooled down after a session


@dataclass(frozen=True)
class Timeline:
    """Some devices over the first part of the run."""

    unit: str
    size: float  # the unit, in seconds
    longest: float  # length of the window, in that unit
    devices: tuple[Device, ...]
    omitted: int  # devices that were recorded and are left out
    whole: bool  # whether the window is the whole run
    start: datetime
    clock: str  # whose time of day is shown: UTC, or the one zone that the devices live in

    @property
    def conditions(self) -> list[str]:
        """Names of the conditions, in the order in which devices have them."""
        return list(dict.fromkeys(name for device in self.devices for name, _ in device.conditions))

    @property
    def covered(self) -> str:
        """How many devices over which time, in words."""
        return f"{count(len(self.devices), 'device')} over {duration(self.longest * self.size)}"

    @property
    def sessions(self) -> str:
        """How many sessions, in words."""
        return count(sum(len(device.sessions[0]) for device in self.devices), "session")


def _device(run: FinishedRun, client: int, until: float, size: float) -> Device:
    assert run.transitions is not None
    changes = run.transitions.filter(client=client).sort("time_s")
    names = sorted(changes["condition"].unique().to_list(), key=_order)
    held = tuple((name, _clipped(*_held(changes.filter(condition=name), until), until, size)) for name in names)
    sessions = run.gathered.chosen.filter(client=client)
    begun, ended = sessions["selected_s"].to_numpy(), sessions["ended_s"].fill_nan(None).fill_null(until).to_numpy()
    cooling = _clipped(*_cooling(run, client, sessions), until, size)
    return Device(client, held, _clipped(begun, ended, until, size), cooling)


def _order(condition: str) -> tuple[int, str]:
    return (_CONDITIONS.index(condition) if condition in _CONDITIONS else len(_CONDITIONS), condition)


def _held(changes: pl.DataFrame, until: float) -> tuple[Floats, Floats]:
    """Pair each beginning with the next end; what has not ended goes on to the end of the window."""
    starts = changes.filter(pl.col("on"))["time_s"].to_numpy()
    ends = changes.filter(~pl.col("on"))["time_s"].to_numpy()
    after = np.searchsorted(ends, starts, side="right")
    return starts, np.append(ends, until if not len(ends) else max(until, ends[-1]))[after]


def _cooling(run: FinishedRun, client: int, sessions: pl.DataFrame) -> tuple[Floats, Floats]:
    """Find when a client had to wait after each session: for its separation, for its wall-clock cool-down.

    A separation ends with the opening of the round that may select the client again. It counts from the selection, but
    one who is in a session waits for nothing else, so the waiting is drawn from the session's end on.
    """
    row = run.clients.row(by_predicate=pl.col("client") == client, named=True)
    from_report = run.scenario.server.cooldown_from == "reported"
    rested = sessions.filter(pl.col("outcome") == "reported") if from_report else sessions
    begun, ended = rested["selected_s"].to_numpy(), rested["ended_s"].fill_nan(None).to_numpy()
    free = free_round(run.scenario.server, np.full(len(rested), row["separation"]), rested["round"].to_numpy())
    opened = np.append(run.rounds["opened_s"].to_numpy(), run.simulated_s)
    ready = opened[np.minimum(free, len(run.rounds))]
    until = np.maximum(ready, (ended if from_report else begun) + row["cooldown_s"])
    known = np.isfinite(ended) & (until > ended)
    return ended[known], until[known]


def _clipped(starts: Floats, ends: Floats, until: float, size: float) -> _Spans:
    inside = starts < until
    return starts[inside] / size, np.minimum(ends[inside], until) / size


class TimelineChart:
    """When the conditions of some devices held, when they were in a session, when they cooled down."""

    title, section = "Days in the life of some devices", "devices"

    def prepare(self, run: FinishedRun) -> Timeline | str:
        if run.transitions is None or run.transitions.is_empty():
            return "No device was recorded: records.transitions names those to follow."
        # One of which no condition ever held has no transitions.
        clients = sorted({*run.transitions["client"].to_list(), *run.scenario.records.transitions})
        until = min(_WINDOW, run.simulated_s)
        size, unit = (HOUR_S, "hours") if until >= 7_200 else time_scale(until)
        shown = clients[:_DEVICES]
        return Timeline(
            unit=unit,
            size=size,
            longest=until / size,
            devices=tuple(_device(run, int(client), until, size) for client in shown),
            omitted=len(clients) - len(shown),
            whole=until >= run.simulated_s,
            start=run.scenario.start,
            clock=clock_of(run.clients.filter(pl.col("client").is_in(shown))),
        )

    def height(self, data: Timeline) -> float:
        rows = sum(len(device.conditions) + 3 for device in data.devices)
        return float(np.clip(0.4 + 0.042 * rows, 0.75, 2.0))

    def finding(self, data: Timeline) -> str:
        return f"{data.covered}: {data.sessions}"

    def description(self, data: Timeline) -> str:
        held = "when the conditions held that a session requires"
        return f"{data.covered}: {held}, {data.sessions}, and the cool-downs after them."

    def notes(self, data: Timeline) -> Iterator[str]:
        if not data.whole:
            yield f"The first {duration(data.longest * data.size)} of the run."
        if data.omitted:
            yield f"{count(data.omitted, 'recorded device')} left out; transitions.parquet has them all."
        yield "Sessions are drawn a little longer than they were, or they could not be seen."

    def table(self, data: Timeline) -> Table:
        names, rows = data.conditions, []
        for device in data.devices:
            held = [*device.conditions, ("", device.cooling)]
            shares = {name: percent(float((ends - starts).sum()) / data.longest) for name, (starts, ends) in held}
            sessions = count(len(device.sessions[0]))
            rows.append((str(device.client), *(shares.get(name, "") for name in names), sessions, shares[""]))
        header = ("Device", *(name.capitalize() for name in names), "Sessions", "Cooling down")
        return Table("Devices: shares of the time shown", header, tuple(rows), words=0)

    def draw(self, data: Timeline, axes: Axes) -> None:
        """Draw for each device a row for each condition and, below them, a broad one for sessions and cool-downs."""
        names = sorted(data.conditions, key=_order)
        colors = {name: SERIES[(2, 5, 4, 3)[index % 4]] for index, name in enumerate(names)}
        shown: dict[str, Artist] = {}
        ticks: list[float] = []
        top = 0.0
        for device in data.devices:
            for name, held in device.conditions:
                patch = spans(axes, *held, (top + 0.15, top + 0.85), colors[name])
                shown.setdefault(name, patch)
                top += 1
            broad = (top + 0.1, top + 1.5)
            shown["cool-down"] = spans(axes, *device.cooling, broad, SERIES[1], alpha=0.32)
            starts, ends = device.sessions
            shown["session"] = spans(axes, starts, np.maximum(ends, starts + data.longest / 260), broad, SERIES[0])
            ticks.append((top + 1.5 + top - len(device.conditions)) / 2)
            top += 2.6
            if device is not data.devices[-1]:
                axes.axhline(top - 0.55, color=INK, linewidth=0.4)
        axes.set_ylim(top - 0.6, -0.3)
        labels = [f"device {device.client}" for device in data.devices]
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_major_formatter(lambda _, index: labels[int(index or 0)])
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        along = clock_axis(axes, data.start, data.clock, data.longest * data.size, data.size)
        entries = [(shown[name], name) for name in (*names, "session", "cool-down")]
        finish(axes, along or time_axis(axes, data.unit, data.longest), "", entries)
