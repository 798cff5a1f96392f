"""How long rounds took; of a buffered server, how stale its reports were and how many of its places were taken."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import time_unit
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, duration, fixed, listing, percent
from fedsim.findings.gathered import POINTS
from fedsim.report.charts import marks
from fedsim.report.tables import Table, thinned

_SAME = 1e-9  # durations that differ by no more than this part of them are the same


@dataclass(frozen=True)
class Durations:
    """Times over round numbers, in a unit that suits them."""

    rounds: int
    unit: str
    running: marks.Binned  # from the selection of the cohort to the close; without rounds that selected no client
    waiting: marks.Binned | None  # from the opening until then, or to the close without selection; None without waits
    logarithmic: bool  # whether times go on a logarithmic axis
    longest: float  # the longest time from opening to close, in seconds
    noun: str  # round, or version where the server is buffered
    size: float  # the unit, in seconds
    median: float  # of the times from opening to close, in seconds
    waited: float  # share of the simulated time that was spent waiting for clients


def _binned(rounds: pl.Series, times: Floats) -> marks.Binned:
    return marks.binned(rounds.to_numpy().astype(np.float64), times, marks.edges(len(times)))


class DurationChart:
    """How long rounds took, and how much of that was waiting for enough eligible clients."""

    section = "rounds"

    def prepare(self, run: FinishedRun) -> Durations | str:
        closed = run.rounds.filter(pl.col("closed_s").is_finite()).with_columns(pl.col("selected_s").fill_nan(None))
        if closed.is_empty():
            return "No round closed in this run."
        chosen = closed.drop_nulls("selected_s")
        if run.gathered.buffered is not None:
            # A version begins when the one before ends, and waits for no client in particular.
            closed = chosen = closed.with_columns(selected_s=pl.col("opened_s"))
        running = (chosen["closed_s"] - chosen["selected_s"]).to_numpy()
        waiting = (closed["selected_s"].fill_null(closed["closed_s"]) - closed["opened_s"]).to_numpy()
        whole = (closed["closed_s"] - closed["opened_s"]).to_numpy()
        longest = float(whole.max())
        if len(whole) > 1 and not waiting.any() and longest - float(whole.min()) <= _SAME * longest:
            return f"Each of the {count(len(whole), run.noun)} took {duration(longest)}."
        typical = float(np.median(running)) if len(running) else longest
        # Waits that dwarf the running time would press it to the ground on a linear axis.
        far = len(running) > 0 and longest > 30 * typical > 0
        size, unit = time_unit(typical if len(running) and not far else longest)
        return Durations(
            rounds=len(closed),
            unit=unit,
            running=_binned(chosen["round"], running / size),
            waiting=_binned(closed["round"], waiting / size) if waiting.any() else None,
            logarithmic=far or marks.spans_decades(running, ratio=30),
            longest=longest,
            size=size,
            median=float(np.median(whole)),
            waited=float(waiting.sum() / run.simulated_s) if run.simulated_s else 0.0,
            noun=run.noun,
        )

    def title(self, run: FinishedRun) -> str:
        return f"How long {run.noun}s took"

    def finding(self, data: Durations) -> str:
        noun, longest = data.noun, duration(data.longest)
        if data.waited:
            return f"Waiting for clients took {percent(data.waited)} of the time; the longest {noun} took {longest}"
        return f"The median {noun} took {duration(data.median)}, the longest {longest}"

    def description(self, data: Durations) -> str:
        return f"Durations of {count(data.rounds, data.noun)}; the longest took {duration(data.longest)}."

    def notes(self, data: Durations) -> Iterator[str]:
        if (size := max(points.size for _, points in _lines(data))) > 1:
            yield f"Lines are means over bins of up to {count(size, data.noun)}; bands go from least to greatest."
        if data.waiting is not None:
            yield "Waiting is the time from a round's opening until enough clients were eligible to select from."
            if data.logarithmic:
                yield "A wait of zero, or shorter than all running times, lies below the axis."

    def table(self, data: Durations) -> Table:
        rows = [
            (count(first), name, fixed(mean), fixed(low), fixed(high))
            for name, points in _lines(data)
            for first, mean, low, high in zip(points.first, points.mean, points.low, points.high, strict=True)
        ]
        header = (f"From {data.noun}", "Time", "Mean", "Least", "Greatest")
        return thinned(f"{data.noun.capitalize()} durations ({data.unit})", header, rows)

    def draw(self, data: Durations, axes: Axes) -> None:
        lines = _lines(data)
        entries = [(marks.line(axes, points, marks.SERIES[index]), name) for index, (name, points) in enumerate(lines)]
        highest = max(float(points.high.max()) for _, points in lines)
        if data.logarithmic:
            # The lower limit is that of the running time: waiting may be zero.
            axes.set_ylim(float(data.running.low[data.running.low > 0].min()) / 1.5, highest * 1.5)
            marks.log_durations(axes, data.size)
        else:
            axes.set_ylim(0, 1.15 * highest or 1.0)
            marks.linear(axes, "y")
        marks.linear(axes, "x", whole=True)
        marks.finish(axes, data.noun, "duration" if data.logarithmic else f"duration ({data.unit})", entries)


def _lines(data: Durations) -> tuple[tuple[str, marks.Binned], ...]:
    name = "selection to close" if data.noun == "round" else "a version"
    running = ((name, data.running),) if len(data.running.x) else ()
    waiting = (("waiting to select", data.waiting),) if data.waiting is not None else ()
    return (*running, *waiting)


@dataclass(frozen=True)
class StalenessByGroup:
    """Reports by staleness."""

    first: Ints  # (K,) the least staleness of each bin
    width: int  # versions in a bin
    names: tuple[str, ...]  # groups, or one name for everyone where there are many
    shares: tuple[Floats, ...]  # for each of them (K,) the share of its reports in each bin, with the discarded ones
    means: tuple[float, ...]  # of each of them, in versions
    discarded: float  # share of all reports that were discarded
    limit: int | None  # the staleness beyond which they are; None where none are, or where it lies beyond what occurred


class StalenessChart:
    """How stale the reports of a buffered server were, group by group."""

    title, section = "How stale reports were", "rounds"

    def prepare(self, run: FinishedRun) -> StalenessByGroup | str | None:
        if (buffered := run.gathered.buffered) is None:
            return None
        if buffered.staleness.is_empty():
            return "Nobody reported in this run."
        table = buffered.staleness.with_columns(reports=pl.col("taken") + pl.col("discarded"))
        names = [str(name) for name in run.clients["group"].unique(maintain_order=True)]
        if not 1 < len(names) <= len(marks.SERIES):
            names, table = ["all clients"], table.with_columns(group=pl.lit("all clients"))
        most = int(table["staleness"].to_numpy().max())
        if most == 0:
            return "No report was late: each was made with the version that the server still had."
        width = -(-(most + 1) // POINTS)
        first = np.arange(0, most + 1, width)
        shown, shares, means = [], [], []
        for name in names:
            own = table.filter(group=name)
            reports = own["reports"].to_numpy().astype(np.float64)
            if reports.sum():
                stale = own["staleness"].to_numpy()
                shown.append(name)
                shares.append(np.bincount(stale // width, reports, minlength=len(first)) / reports.sum())
                means.append(float(stale @ reports / reports.sum()))
        limit = run.scenario.server.max_staleness
        return StalenessByGroup(
            first=first,
            width=width,
            names=tuple(shown),
            shares=tuple(shares),
            means=tuple(means),
            discarded=float(table["discarded"].to_numpy().sum() / table["reports"].to_numpy().sum()),
            limit=limit if limit is not None and limit < most + 1 else None,
        )

    def finding(self, data: StalenessByGroup) -> str:
        ranked = sorted(zip(data.means, data.names, strict=True))
        (low, fresh), (high, stale) = ranked[0], ranked[-1]
        if len(ranked) == 1:
            return f"Reports are {fixed(low, 1)} versions late on average"
        names = marks.shortened(stale, 22), marks.shortened(fresh, 22)
        return f"Reports of {names[0]} are {fixed(high, 1)} versions late on average, of {names[1]} {fixed(low, 1)}"

    def description(self, data: StalenessByGroup) -> str:
        means = [f"{name} {fixed(mean, 1)}" for name, mean in zip(data.names, data.means, strict=True)]
        return f"Mean staleness in versions: {listing(means)}."

    def notes(self, data: StalenessByGroup) -> Iterator[str]:
        yield "Staleness is how many versions the server had gone on by when a report came."
        if data.width > 1:
            yield f"Points stand for {data.width} versions each."
        if data.limit is not None:
            yield f"{percent(data.discarded)} of the reports came later than the line and were discarded."

    def table(self, data: StalenessByGroup) -> Table:
        columns = [map(percent, shares.tolist()) for shares in data.shares]
        rows = list(zip(map(count, data.first), *columns, strict=True))
        return thinned("Share of the reports by staleness", ("Staleness", *data.names), rows)

    def draw(self, data: StalenessByGroup, axes: Axes) -> None:
        x = data.first + (data.width - 1) / 2
        marker = "o" if len(x) < 40 else ""
        entries: list[tuple[Artist, str]] = []
        for name, shares, color in zip(data.names, data.shares, marks.SERIES, strict=False):
            (artist,) = axes.plot(x, shares, color=color, marker=marker, markersize=4)
            entries.append((artist, name))
        if data.limit is not None:
            entries.append((marks.rule(axes, x=data.limit + 0.5), "discarded beyond"))
        axes.set_ylim(0, 1.1 * max(float(shares.max()) for shares in data.shares))
        marks.percents(axes)
        marks.linear(axes, "x", whole=True)
        marks.finish(axes, "staleness (versions)", "share of the reports", entries)


@dataclass(frozen=True)
class Concurrency:
    """Sessions that ran at once, over equal spans of the run."""

    times: Floats  # the middle of each span
    sessions: Floats  # those that ran in it, on average
    unit: str
    places: int  # how many there may be


class ConcurrencyChart:
    """How many of a buffered server's places were taken over time."""

    title, section = "How many sessions ran at once", "rounds"

    def prepare(self, run: FinishedRun) -> Concurrency | str | None:
        if (buffered := run.gathered.buffered) is None:
            return None
        if run.simulated_s <= 0:
            return "No time passed in this run."
        size, unit = time_unit(run.simulated_s)
        times = (buffered.time_s - 0.5 * buffered.time_s[0]) / size
        return Concurrency(times, buffered.running, unit, run.scenario.server.wanted)

    def finding(self, data: Concurrency) -> str:
        return self.description(data)[:-1]

    def description(self, data: Concurrency) -> str:
        taken = round(float(data.sessions.mean()) / data.places, 9)
        return f"{percent(taken)} of the {count(data.places, 'place')} were taken on average."

    def notes(self, data: Concurrency) -> str:
        return f"Means over {len(data.times)} equal spans of the run."

    def table(self, data: Concurrency) -> Table:
        rows = [(fixed(time, 2), fixed(running, 1)) for time, running in zip(data.times, data.sessions, strict=True)]
        return thinned(f"Sessions that ran at once (time in {data.unit})", ("Time", "Sessions"), rows)

    def draw(self, data: Concurrency, axes: Axes) -> None:
        axes.fill_between(data.times, 0, data.sessions, color=marks.SERIES[0], alpha=0.16, linewidth=0)
        (running,) = axes.plot(data.times, data.sessions, color=marks.SERIES[0])
        entries = [(running, "in flight"), (marks.rule(axes, y=data.places), "concurrency")]
        axes.set_ylim(0, 1.1 * max(float(np.max(data.sessions)), float(data.places)))
        marks.linear(axes, "x")
        marks.linear(axes, "y", whole=True)
        marks.finish(axes, f"time ({data.unit})", "sessions in flight", entries)
