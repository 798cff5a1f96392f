"""A buffered server: how stale its reports were, group by group, and how many of its places were taken over time."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.report.binning import POINTS
from fedsim.report.charts.marks import SERIES, finish, linear, percents, rule, shortened
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent, time_unit
from fedsim.report.tables import Table, thinned
from fedsim.scenario.server import BufferedServer


@dataclass(frozen=True)
class Staleness:
    """Reports by staleness.

    Parameters
    ----------
    first
        (K,) the least staleness of each bin.
    width
        Versions in a bin.
    names
        Groups, or one name for everyone where there are many.
    shares
        For each of them (K,) the share of its reports in each bin, those that were discarded among them.
    means
        Of each of them, in versions.
    discarded
        Share of all reports that were discarded.
    limit
        The staleness beyond which they are; None where none are, or where it lies beyond what occurred.
    """

    first: Ints
    width: int
    names: tuple[str, ...]
    shares: tuple[Floats, ...]
    means: tuple[float, ...]
    discarded: float
    limit: int | None


def staleness_data(run: FinishedRun) -> Staleness | str | None:
    """Compute the chart's data, or say why there is none; None where the server runs rounds."""
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
    server = run.scenario.server
    limit = server.max_staleness if isinstance(server, BufferedServer) else None
    return Staleness(
        first=first,
        width=width,
        names=tuple(shown),
        shares=tuple(shares),
        means=tuple(means),
        discarded=float(table["discarded"].to_numpy().sum() / table["reports"].to_numpy().sum()),
        limit=limit if limit is not None and limit < most + 1 else None,
    )


class StalenessChart:
    """How stale the reports of a buffered server were, group by group."""

    title, section = "How stale reports were", "rounds"
    prepare = staticmethod(staleness_data)

    def finding(self, data: Staleness) -> str:
        ranked = sorted(zip(data.means, data.names, strict=True))
        (low, fresh), (high, stale) = ranked[0], ranked[-1]
        if len(ranked) == 1:
            return f"Reports are {fixed(low, 1)} versions late on average"
        names = shortened(stale, 22), shortened(fresh, 22)
        return f"Reports of {names[0]} are {fixed(high, 1)} versions late on average, of {names[1]} {fixed(low, 1)}"

    def description(self, data: Staleness) -> str:
        means = [f"{name} {fixed(mean, 1)}" for name, mean in zip(data.names, data.means, strict=True)]
        return f"Mean staleness in versions: {listing(means)}."

    def notes(self, data: Staleness) -> list[str]:
        notes = ["Staleness is how many versions the server had gone on by when a report came."]
        if data.width > 1:
            notes.append(f"Points stand for {data.width} versions each.")
        if data.limit is not None:
            notes.append(f"{percent(data.discarded)} of the reports came later than the line and were discarded.")
        return notes

    def table(self, data: Staleness) -> Table:
        rows = [
            (count(first), *(percent(float(shares[k])) for shares in data.shares)) for k, first in enumerate(data.first)
        ]
        return thinned("Share of the reports by staleness", ("Staleness", *data.names), rows)

    def draw(self, data: Staleness, axes: Axes) -> None:
        """Draw the share of each group's reports over their staleness."""
        x = data.first + (data.width - 1) / 2
        entries: list[tuple[Artist, str]] = []
        for index, (name, shares) in enumerate(zip(data.names, data.shares, strict=True)):
            marker = "o" if len(x) < 40 else ""
            (artist,) = axes.plot(x, shares, color=SERIES[index], marker=marker, markersize=4)
            entries.append((artist, name))
        if data.limit is not None:
            limit = rule(axes, x=data.limit + 0.5)
            entries.append((limit, "discarded beyond"))
        axes.set_ylim(0, 1.1 * max(float(shares.max()) for shares in data.shares))
        percents(axes)
        linear(axes, "x", whole=True)
        finish(axes, "staleness (versions)", "share of the reports", entries)


class ConcurrencyChart:
    """How many of a buffered server's places were taken over time."""

    title, section = "How many sessions ran at once", "rounds"

    def prepare(self, run: FinishedRun) -> FinishedRun | str | None:
        if run.buffered is None:
            return None
        return run if run.simulated_s > 0 else "No time passed in this run."

    def finding(self, run: FinishedRun) -> str:
        return self.description(run)[:-1]

    def description(self, run: FinishedRun) -> str:
        places = run.scenario.server.wanted
        taken = round(float(_running(run)[1].mean()) / places, 9)
        return f"{percent(taken)} of the {count(places, 'place')} were taken on average."

    def notes(self, run: FinishedRun) -> str:
        return f"Means over {len(_running(run)[0])} equal spans of the run."

    def table(self, run: FinishedRun) -> Table:
        times, sessions, unit = _running(run)
        rows = [(fixed(time, 2), fixed(running, 1)) for time, running in zip(times, sessions, strict=True)]
        return thinned(f"Sessions that ran at once (time in {unit})", ("Time", "Sessions"), rows)

    def draw(self, run: FinishedRun, axes: Axes) -> None:
        """Draw the sessions in flight, and how many there may be."""
        times, sessions, unit = _running(run)
        places = run.scenario.server.wanted
        axes.fill_between(times, 0, sessions, color=SERIES[0], alpha=0.16, linewidth=0)
        (running,) = axes.plot(times, sessions, color=SERIES[0])
        most = rule(axes, y=places)
        axes.set_ylim(0, 1.1 * max(float(np.max(sessions)), float(places)))
        linear(axes, "x")
        linear(axes, "y", whole=True)
        finish(axes, f"time ({unit})", "sessions in flight", [(running, "in flight"), (most, "concurrency")])


def _running(run: FinishedRun) -> tuple[Floats, Floats, str]:
    """Return the middles of equal spans of a run, the sessions that ran in each on average, and the unit of time."""
    assert run.buffered is not None
    size, unit = time_unit(run.simulated_s)
    time_s = run.buffered.time_s
    return (time_s - 0.5 * time_s[0]) / size, run.buffered.running, unit
