"""Two runs or two sweeps side by side, as tables: what was set differently, and what came out differently."""

import json
import re
from collections.abc import Sequence

import polars as pl

from fedsim.analysis import describe, listed
from fedsim.experiment.changes import Change
from fedsim.report.finished_sweep import short, shown
from fedsim.report.formatting import NOTHING, count, minus, number, percent
from fedsim.report.sweep_report import HEADLINES
from fedsim.report.tables import Table
from fedsim.sweeps.results import parameters_of

SETTINGS = 80
"""Settings shown at most."""

ROWS = 250
"""Rows of figures shown at most."""

LONGEST = 160
"""Characters of a setting shown at most."""

_OWN = ("seeds", "baseline_mean", "mean", "difference", "standard_error", "low", "high")


_BESIDE = {"name", "description", "expect", "drift", "sweep", "records", "replicates", "engine", "schema_version"}


def of_the_world(changes: Sequence[Change]) -> list[Change]:
    """Keep the settings that can change what happens; the others name, record or judge it."""
    return [change for change in changes if re.split(r"[.\[]", change[0], maxsplit=1)[0] not in _BESIDE]


def setting_table(changes: Sequence[Change]) -> Table | None:
    """Show the settings that differ; None where none does."""
    if not changes:
        return None
    first = of_the_world(changes)
    ordered = [*first, *(change for change in changes if change not in first)]
    left = len(changes) - SETTINGS
    return Table(
        "Settings that differ",
        ("Setting", "A", "B"),
        tuple((path, written(ours), written(theirs)) for path, ours, theirs in ordered[:SETTINGS]),
        words=3,
        note=f"{count(left, 'more setting')} in the manifests." if left > 0 else "",
    )


def written(value: object) -> str:
    """Write a setting's value, as far as there is room."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def ranked(figures: pl.DataFrame) -> pl.DataFrame:
    """Put the figures in the order in which they are read: the headlines, then as the catalogue lists them."""
    order = {metric.name: index for index, metric in enumerate(listed())}

    def rank(name: str) -> int:
        if name in HEADLINES:
            return HEADLINES.index(name) - len(HEADLINES)
        known = describe(name)
        return len(order) if known is None else order[known.name]

    names = figures["metric"].unique().sort().to_list()
    ranks = pl.DataFrame(
        {"metric": names, "rank": [rank(name) for name in names]}, schema_overrides={"metric": pl.String}
    )
    joined = figures.join(ranks, on="metric", how="left", maintain_order="left")
    return joined.sort("rank", "metric", "point", maintain_order=True).drop("rank")


def figure_table(figures: pl.DataFrame, caption: str, rows: int = ROWS, rest: str = "in the directories") -> Table:
    """Show figures side by side, with how B differs from A, and by how much that may be chance where it is known."""
    parameters = [name for name in parameters_of(figures) if name not in _OWN]
    several = bool((figures["seeds"] > 1).any())
    cells = []
    for row in figures.head(rows).iter_rows(named=True):
        first, second, apart = row["baseline_mean"], row["mean"], row["difference"]
        values = [row["metric"], *(shown(row[name]) for name in parameters), number(first, 5), number(second, 5)]
        values.append(signed(apart))
        if several:
            known = row["high"] is not None and row["seeds"] > 1
            values.append(number(row["high"] - apart, 2) if known else NOTHING)
        values.append(_signed_percent(apart / abs(first)) if first else NOTHING)
        cells.append(tuple(values))
    interval = ("± 95 %",) if several else ()
    header = ("Metric", *map(short, parameters), "A", "B", "B \N{MINUS SIGN} A", *interval, "Change")
    left = len(figures) - len(cells)
    note = f"{count(left, 'more figure')} {rest}." if left > 0 else ""
    return Table(caption, header, tuple(cells), words=1 + len(parameters), note=note)


def signed(value: float) -> str:
    """Write a difference with its sign."""
    return f"+{number(value)}" if value > 0 else minus(number(value))


def _signed_percent(share: float) -> str:
    text = percent(share)
    return f"+{text}" if share > 0 and text[0].isdigit() else text
