"""How stale the reports of a buffered server were, group by group."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.report.binning import POINTS
from fedsim.report.charts.marks import SERIES, finish, linear, percents, rule
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent
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
