"""A timeline of some devices: when each condition held, when they were in a session, when they cooled down."""

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
from fedsim.report.charts import Chart
from fedsim.report.charts.availability import clock_of
from fedsim.report.charts.marks import INK, SERIES, clock_axis, finish, spans, time_axis, time_scale
from fedsim.report.tables import Table
from fedsim.simulation.world import free_round

_DEVICES = 6  # devices shown at most
_WINDOW = 2 * DAY_S  # seconds of simulated time shown at most, from the start
_CONDITIONS = ("charging", "network", "idle", "available")  # in the order of their rows; any other comes after them
SESSION, COOLING = "session", "cool-down"

TimeSpans: TypeAlias = tuple[Floats, Floats]
"""Intervals of time in order: where each starts and where it ends."""


def device_spans(run: FinishedRun, client: int, until: float, size: float = 1.0) -> dict[str, TimeSpans]:
    """Return when each condition of a device held, when it was in a session and cooled down, as far as `until`.

    `until` is in seconds, what is returned in units of `size` seconds.
    """
    assert run.transitions is not None
    changes = run.transitions.filter(client=client).sort("time_s")
    names = sorted(changes["condition"].unique().to_list(), key=_order)
    held = {name: _held(changes.filter(condition=name), until) for name in names}
    sessions = run.gathered.chosen.filter(client=client)
    begun, ended = sessions["selected_s"].to_numpy(), sessions["ended_s"].fill_nan(None).fill_null(until).to_numpy()
    every = {**held, COOLING: _cooling(run, client, sessions), SESSION: (begun, ended)}
    return {
        name: (at[at < until] / size, np.minimum(ends[at < until], until) / size) for name, (at, ends) in every.items()
    }


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


def timeline_chart(run: FinishedRun) -> Chart | None:
    """Draw when the conditions of some devices held, when they were in a session, when they cooled down.

    None where no device was recorded.
    """
    if run.transitions is None or run.transitions.is_empty():
        return None
    # One of which no condition ever held has no transitions.
    clients = sorted({*run.transitions["client"].to_list(), *run.scenario.records.transitions})
    until, shown = min(_WINDOW, run.simulated_s), clients[:_DEVICES]
    size, unit = (HOUR_S, "hours") if until >= 7_200 else time_scale(until)
    devices, longest = {client: device_spans(run, client, until, size) for client in shown}, until / size
    names = sorted({name for spans in devices.values() for name in spans} - {SESSION, COOLING}, key=_order)
    sessions = sum(len(each[SESSION][0]) for each in devices.values())
    covered = f"{count(len(devices), 'device')} over {duration(until)}: {count(sessions, 'session')}"
    notes = [] if until >= run.simulated_s else [f"The first {duration(until)} of the run."]
    if left := len(clients) - len(shown):
        notes.append(f"{count(left, 'recorded device')} left out; transitions.parquet has them all.")
    notes.append("Sessions are drawn a little longer than they were, or they could not be seen.")
    rows = []
    for client, held in devices.items():
        shares = [held.get(name) for name in (*names, COOLING)]
        cells = ["" if each is None else percent(float((each[1] - each[0]).sum() / longest)) for each in shares]
        rows.append((str(client), *cells, count(len(held[SESSION][0]))))
    colors = {name: SERIES[(2, 5, 4, 3)[index % 4]] for index, name in enumerate(names)}

    def draw(axes: Axes) -> None:
        """Draw for each device a row for each condition and, below them, a broad one for sessions and cool-downs."""
        artists: dict[str, Artist] = {}
        ticks: list[float] = []
        top = 0.0
        for client, held in devices.items():
            first = top
            for name in names:
                if name in held:
                    artists[name] = spans(axes, *held[name], (top + 0.15, top + 0.85), colors[name])
                    top += 1
            broad = (top + 0.1, top + 1.5)
            artists[COOLING] = spans(axes, *held[COOLING], broad, SERIES[1], alpha=0.32)
            starts, ends = held[SESSION]
            artists[SESSION] = spans(axes, starts, np.maximum(ends, starts + longest / 260), broad, SERIES[0])
            ticks.append((top + 1.5 + first) / 2)
            top += 2.6
            if client != shown[-1]:
                axes.axhline(top - 0.55, color=INK, linewidth=0.4)
        axes.set_ylim(top - 0.6, -0.3)
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_major_formatter(lambda _, index: f"device {shown[int(index or 0)]}")
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        clock = clock_of(run.clients.filter(pl.col("client").is_in(shown)))
        along = clock_axis(axes, run.scenario.start, clock, until, size)
        finish(axes, along or time_axis(axes, unit, longest), "", [(each, name) for name, each in artists.items()])

    header = ("Device", *(name.capitalize() for name in (*names, COOLING)), "Sessions")
    return Chart(
        name="timeline",
        title="Conditions and sessions of some devices",
        description=f"{covered}; when the conditions held that a session requires, and the cool-downs after sessions.",
        notes=tuple(notes),
        table=Table("Devices: shares of the time shown", header, tuple(rows), words=0),
        draw=draw,
        height=float(np.clip(0.4 + 0.042 * sum(len(each) + 1 for each in devices.values()), 0.75, 2.0)),
    )
