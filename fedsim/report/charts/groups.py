"""How often each group took part: measured, beside the theory and beside uniform."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedsim.report.binning import Floats, Ints
from fedsim.report.charts.marks import RULE, SERIES, finish, linear, rule, shortened
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import NOTHING, count, fixed, listing, percent
from fedsim.report.tables import GROUPS, Table

LABEL = 22
"""Characters of a group's name that fit beside the chart."""


@dataclass(frozen=True)
class GroupFrequencies:
    """Frequencies by group, in multiples of uniform: 1 is a group's share of the clients.

    Parameters
    ----------
    names
        The groups in the order of the scenario.
    clients
        How many each has.
    share
        Share of all participations.
    measured
        That share over the group's share of the clients.
    theory
        What theory puts in its place; None where it has no value for some client.
    omitted
        Groups left out.
    """

    names: tuple[str, ...]
    clients: Ints
    share: Floats
    measured: Floats
    theory: Floats | None
    omitted: int


def group_data(run: FinishedRun) -> GroupFrequencies | str:
    """Compute the chart's data, or say why there is none."""
    groups = run.clients.group_by("group", maintain_order=True).agg(
        pl.len(), pl.col("participations").sum(), pl.col("pi").sum().alias("pi")
    )
    total = groups["participations"].sum()
    if len(groups) < 2 or not total:
        return "There is one group only, or nobody took part."
    shown = groups.head(GROUPS)
    clients = shown["len"].to_numpy().astype(np.int64)
    share = shown["participations"].to_numpy() / total
    uniform = clients / len(run.clients)
    return GroupFrequencies(
        names=tuple(str(name) for name in shown["group"]),
        clients=clients,
        share=share,
        measured=share / uniform,
        theory=None if run.clients["pi"].null_count() else shown["pi"].to_numpy() / uniform,
        omitted=len(groups) - len(shown),
    )


class GroupChart:
    """How often each group took part: measured, beside the theory and beside uniform."""

    title, section = "Which groups took part", "bias"
    prepare = staticmethod(group_data)

    def description(self, data: GroupFrequencies) -> str:
        ways = [f"{name} {fixed(value, 2)}" for name, value in zip(data.names, data.measured, strict=True)]
        return f"Frequency by group, in multiples of uniform: {listing(ways)}."

    def notes(self, data: GroupFrequencies) -> list[str]:
        notes = ["1 is uniform: a group that takes part as much as its share of the clients."]
        if data.omitted:
            notes.append(f"The first {len(data.names)} groups; {count(data.omitted)} more are in clients.parquet.")
        return notes

    def height(self, data: GroupFrequencies) -> float:
        return float(np.clip(0.42 + 0.085 * len(data.names), 0.62, 1.9))

    def table(self, data: GroupFrequencies) -> Table:
        theory = [NOTHING] * len(data.names) if data.theory is None else [fixed(value) for value in data.theory]
        rows = tuple(
            (name, count(clients), percent(share), fixed(measured), predicted)
            for name, clients, share, measured, predicted in zip(
                data.names, data.clients, data.share, data.measured, theory, strict=True
            )
        )
        header = ("Group", "Clients", "Share", "Measured", "Theory")
        return Table("Frequency by group, in multiples of uniform", header, rows)

    def draw(self, data: GroupFrequencies, axes: Axes) -> None:
        """Draw a row for each group: a dot where it lies, a stem to uniform, a tick where theory puts it."""
        rows = np.arange(len(data.names))[::-1]
        axes.hlines(rows, 1, data.measured, color=SERIES[0], linewidth=2, alpha=0.35)
        uniform = rule(axes, x=1)
        (dots,) = axes.plot(data.measured, rows, linestyle="", marker="o", markersize=6, color=SERIES[0], zorder=3)
        entries: list[tuple[Artist, str]] = [(dots, "measured")]
        if data.theory is not None:
            (ticks,) = axes.plot(
                data.theory, rows, linestyle="", marker="|", markersize=11, markeredgewidth=2, color=SERIES[1], zorder=4
            )
            entries.append((ticks, "theory"))
        entries.append((uniform, "uniform"))
        highest = max(float(data.measured.max()), 1.0, 0.0 if data.theory is None else float(data.theory.max()))
        axes.set_xlim(0, 1.1 * highest)
        axes.set_ylim(-0.6, len(data.names) - 0.4)
        names = [shortened(name, LABEL) for name in data.names]
        axes.yaxis.set_major_locator(FixedLocator(rows.tolist()))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda row, _: names[len(names) - 1 - round(row)]))
        axes.grid(visible=True, axis="x", color=RULE)
        axes.grid(visible=False, axis="y")
        linear(axes, "x")
        finish(axes, "frequency, in multiples of uniform", "", entries)
