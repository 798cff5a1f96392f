"""How often each group took part: measured, beside the theory and beside uniform."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedsim.report.charts.marks import RULE, SERIES, finish, linear, rule, shortened
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent
from fedsim.report.tables import GROUPS, Table, group_shares

LABEL = 22
"""Characters of a group's name that fit beside the chart."""


def group_data(run: FinishedRun) -> pl.DataFrame | str:
    """Return the `group_shares` with frequencies in multiples of uniform, or say why there are none.

    Besides, the columns ``frequency`` and ``predicted``: 1 is a group's share of the clients.
    """
    if run.groups < 2 or not run.clients["participations"].sum():
        return "There is one group only, or nobody took part."
    return frequencies(run, "group")


def frequencies(run: FinishedRun, column: str) -> pl.DataFrame:
    """Return the `group_shares` of what a column names, with frequencies in multiples of uniform."""
    groups = group_shares(run, column)
    theory = pl.lit(None) if groups["theory"].null_count() else pl.col("theory")
    return groups.with_columns(frequency=pl.col("measured") / pl.col("uniform"), predicted=theory / pl.col("uniform"))


class GroupChart:
    """How often each group took part: measured, beside the theory and beside uniform."""

    title, section, noun = "Which groups took part", "bias", "group"
    prepare: Any = staticmethod(group_data)

    def finding(self, groups: pl.DataFrame) -> str:
        ranked = groups.sort("frequency", descending=True, maintain_order=True)
        (most, high), (least, low) = (ranked.select("group", "frequency").row(place) for place in (0, -1))
        if fixed(high, 2) == fixed(low, 2):
            return f"Every {self.noun} takes part {fixed(high, 2)} times as often as its size says"
        names = [shortened(str(name), LABEL) for name in (most, least)]
        return f"{names[0]} takes part {fixed(high, 2)} times as often as its size says, {names[1]} {fixed(low, 2)}"

    def description(self, groups: pl.DataFrame) -> str:
        shown = groups.head(GROUPS).select("group", "frequency")
        ways = [f"{name} {fixed(value, 2)}" for name, value in shown.iter_rows()]
        return f"Frequency by {self.noun}, in multiples of uniform: {listing(ways)}."

    def notes(self, groups: pl.DataFrame) -> list[str]:
        notes = [f"1 is uniform: a {self.noun} that takes part as much as its share of the clients."]
        if (omitted := len(groups) - GROUPS) > 0:
            notes.append(f"The first {GROUPS} {self.noun}s; {count(omitted)} more are in clients.parquet.")
        return notes

    def height(self, groups: pl.DataFrame) -> float:
        return float(np.clip(0.42 + 0.085 * min(len(groups), GROUPS), 0.62, 1.9))

    def table(self, groups: pl.DataFrame) -> Table:
        shown = groups.head(GROUPS).select("group", "clients", "measured", "frequency", "predicted")
        rows = tuple(
            (str(name), count(clients), percent(share), fixed(frequency), fixed(predicted))
            for name, clients, share, frequency, predicted in shown.iter_rows()
        )
        header = (self.noun.capitalize(), "Clients", "Share", "Measured", "Theory")
        return Table(f"Frequency by {self.noun}, in multiples of uniform", header, rows)

    def draw(self, groups: pl.DataFrame, axes: Axes) -> None:
        """Draw a row for each group: a dot where it lies, a stem to uniform, a tick where theory puts it."""
        shown = groups.head(GROUPS)
        measured, theory = shown["frequency"].to_numpy(), shown["predicted"].drop_nulls().to_numpy()
        rows = np.arange(len(shown))[::-1]
        axes.hlines(rows, 1, measured, color=SERIES[0], linewidth=2, alpha=0.35)
        uniform = rule(axes, x=1)
        (dots,) = axes.plot(measured, rows, linestyle="", marker="o", markersize=6, color=SERIES[0], zorder=3)
        entries: list[tuple[Artist, str]] = [(dots, "measured")]
        if len(theory):
            (ticks,) = axes.plot(
                theory, rows, linestyle="", marker="|", markersize=11, markeredgewidth=2, color=SERIES[1], zorder=4
            )
            entries.append((ticks, "theory"))
        entries.append((uniform, "uniform"))
        axes.set_xlim(0, 1.1 * max(float(measured.max()), 1.0, float(theory.max(initial=0.0))))
        axes.set_ylim(-0.6, len(shown) - 0.4)
        names = [shortened(str(name), LABEL) for name in shown["group"]]
        axes.yaxis.set_major_locator(FixedLocator(rows.tolist()))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda row, _: names[len(names) - 1 - round(row)]))
        axes.grid(visible=True, axis="x", color=RULE)
        axes.grid(visible=False, axis="y")
        linear(axes, "x")
        finish(axes, "frequency, in multiples of uniform", "", entries)
