"""A buffered server: how stale its reports were, group by group, and how many of its places were taken over time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import time_unit
from fedsim.report.binning import POINTS
from fedsim.report.charts.marks import SERIES, finish, linear, percents, rule, shortened
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent
from fedsim.report.tables import Table, thinned


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
        if run.buffered is None:
            return None
        if run.buffered.staleness.is_empty():
            return "Nobody reported in this run."
        table = run.buffered.staleness.with_columns(reports=pl.col("taken") + pl.col("discarded"))
        names = [str(name) for name in run.clients["group"].unique(maintain_order=True)]
        if not 1 < len(names) <= len(SERIES):
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
        names = shortened(stale, 22), shortened(fresh, 22)
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
        """Draw the share of each group's reports over their staleness."""
        x = data.first + (data.width - 1) / 2
        marker = "o" if len(x) < 40 else ""
        entries: list[tuple[Artist, str]] = []
        for name, shares, color in zip(data.names, data.shares, SERIES, strict=False):
            (artist,) = axes.plot(x, shares, color=color, marker=marker, markersize=4)
            entries.append((artist, name))
        if data.limit is not None:
            entries.append((rule(axes, x=data.limit + 0.5), "discarded beyond"))
        axes.set_ylim(0, 1.1 * max(float(shares.max()) for shares in data.shares))
        percents(axes)
        linear(axes, "x", whole=True)
        finish(axes, "staleness (versions)", "share of the reports", entries)


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
        if run.buffered is None:
            return None
        if run.simulated_s <= 0:
            return "No time passed in this run."
        size, unit = time_unit(run.simulated_s)
        ends = run.buffered.time_s
        return Concurrency((ends - 0.5 * ends[0]) / size, run.buffered.running, unit, run.scenario.server.wanted)

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
        """Draw the sessions in flight, and how many there may be."""
        axes.fill_between(data.times, 0, data.sessions, color=SERIES[0], alpha=0.16, linewidth=0)
        (running,) = axes.plot(data.times, data.sessions, color=SERIES[0])
        entries = [(running, "in flight"), (rule(axes, y=data.places), "concurrency")]
        axes.set_ylim(0, 1.1 * max(float(np.max(data.sessions)), float(data.places)))
        linear(axes, "x")
        linear(axes, "y", whole=True)
        finish(axes, f"time ({data.unit})", "sessions in flight", entries)
