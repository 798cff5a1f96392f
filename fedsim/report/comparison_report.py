"""The report of a comparison: two runs, two sweeps or two points of sweeps, and what differs between them."""

from pathlib import Path

import polars as pl

from fedsim.report.answer import BIAS, COST, TRUST, WHAT, Sentence, Tile
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.side_by_side import NAMES, frequency_chart, loss_chart
from fedsim.report.charts.sweep_lines import L1
from fedsim.report.charts.trade_off import PACE
from fedsim.report.comparison import figure_table, of_the_world, ranked, setting_table, signed, written
from fedsim.report.document import Document
from fedsim.report.finished_run import FinishedRun, read_run
from fedsim.report.formatting import count, fixed, listing, number
from fedsim.report.markdown import plain_table, summary
from fedsim.report.provenance import Provenance, provenance, sweep_provenance
from fedsim.sweeps.compare import Comparison, compare
from fedsim.sweeps.store import SWEEP_FILE, read_sweep

HEADLINE_ROWS = 14
"""Figures in the first table at most; all are in the second."""


def comparison_document(a: Path, b: Path, confidence: float = 0.95) -> Document:
    """Compute everything that the report of a comparison shows.

    Parameters
    ----------
    a, b
        Run directories, sweep directories, or points of sweeps (``DIR@3``).
    confidence
        Of the intervals.

    Raises
    ------
    RunError
        One of them is neither, cannot be read, or the two have nothing in common.
    """
    found = compare(a, b, confidence=confidence)
    figures = ranked(found.metrics)
    moved = figures.filter(pl.col("difference") != 0)
    sides = [(letter, path, _run(path)) for letter, path in (("A", a), ("B", b))]
    runs = [run for _, _, run in sides if run is not None]
    first = figure_table(moved, "Figures that differ", HEADLINE_ROWS, "that differ, below") if len(moved) else None
    differing, said, key = setting_table(found.configuration), comparison_answer(found, runs), comparison_tiles(figures)
    names = [_name(path, run) for _, path, run in sides]
    title = f"{names[0]}: A against B" if names[0] == names[1] else " against ".join(names)
    return Document(
        name=title,
        template="comparison.html.jinja",
        context={
            "description": "",
            "status": "",
            "verdict": None,
            "answer": said,
            "tiles": key,
            "sources": [(letter, name, str(path)) for (letter, path, _), name in zip(sides, names, strict=True)],
            "settings": differing,
            "figures_first": first,
            "figures_all": figure_table(figures, "All figures"),
            "origins": [(letter, _origin(path, run)) for letter, path, run in sides],
        },
        charts={"results": _charts(runs)},
        names=NAMES,
        summary=summary(
            "comparison",
            title,
            None,
            said,
            key,
            [plain_table(table) for table in (differing, first) if table is not None],
        ),
    )


def _charts(runs: list[FinishedRun]) -> tuple[Chart | Absent, ...]:
    """Draw runs over each other; sweeps have charts in their own reports."""
    return (frequency_chart(runs, "AB"), loss_chart(runs, "AB")) if len(runs) == 2 else ()


def _run(path: Path) -> FinishedRun | None:
    return read_run(path) if path.is_dir() and not (path / SWEEP_FILE).exists() else None


def _sweep_directory(path: Path) -> Path:
    """Return the directory of a sweep, which may be named with one of its points."""
    return path if path.exists() else Path(str(path).rpartition("@")[0])


def _name(path: Path, run: FinishedRun | None) -> str:
    if run is not None:
        return run.name
    name = read_sweep(_sweep_directory(path)).get("name")
    point = "" if path.exists() else f", point {str(path).rpartition('@')[2]}"
    return f"{name if isinstance(name, str) else path.name}{point}"


def _origin(path: Path, run: FinishedRun | None) -> Provenance:
    return provenance(run) if run is not None else sweep_provenance(read_sweep(_sweep_directory(path)))


_TOLD = (
    (L1, "The L1 distance from uniform", BIAS),
    (PACE, "The number of rounds per simulated day", COST),
)


def comparison_answer(found: Comparison, runs: list[FinishedRun]) -> tuple[Sentence, ...]:
    """Say in words what differs and what that did."""
    changes = of_the_world(found.configuration)
    beside = len(found.configuration) - len(changes)
    if not changes:
        told = "The scenarios describe the same world" if beside else "The scenarios are the same"
    elif len(changes) <= 3:
        ways = [f"{path} ({written(ours)} against {written(theirs)})" for path, ours, theirs in changes]
        told = f"What differs: {listing(ways)}"
    else:
        told = f"{count(len(changes), 'setting')} of the world differ"
    told += f"; besides, {count(beside, 'setting')} that change nothing in it" if beside else ""
    sentences = [Sentence(f"{told}.", WHAT)]
    for metric, words, about in _TOLD:
        own = found.metrics.filter(metric=metric)
        if len(own) == 1:
            row = own.row(0, named=True)
            first, second = _figure(metric, row["baseline_mean"]), _figure(metric, row["mean"])
            change = f"{signed(row['difference'])}{_error(row, runs, metric)}"
            way = f"goes from {first} to {second} ({change})" if row["difference"] else f"is {first} in both"
            sentences.append(Sentence(f"{words} {way}.", about))
    sentences += [Sentence(f"{note[0].upper()}{note[1:]}.", TRUST, warns=True) for note in found.notes if note]
    same = len({run.manifest.get("seed") for run in runs}) == 1
    if same:
        text = "The seed is the same, so devices that are described alike live the same lives."
        sentences.append(Sentence(text, TRUST))
    return tuple(sentences)


def _error(row: dict[str, float | None], runs: list[FinishedRun], metric: str) -> str:
    """Tell how much of a difference may be chance: from its interval, or from the standard errors of two runs."""
    if row["high"] is not None and row["seeds"] is not None and row["seeds"] > 1 and row["difference"] is not None:
        return f" ± {number(row['high'] - row['difference'], 2)}"
    errors = [error for run in runs if (error := run.metrics.get(f"{metric}_se")) is not None]
    return f", standard error {number(sum(error**2 for error in errors) ** 0.5, 2)}" if len(errors) == 2 else ""


def _figure(metric: str, value: float) -> str:
    return fixed(value) if metric == L1 else number(value)


def _against(difference: float) -> str:
    return f"{signed(difference)} against A" if difference else "the same as A"


def comparison_tiles(figures: pl.DataFrame) -> tuple[Tile, ...]:
    """Pick the key figures: bias and pace of both."""
    found = []
    for metric, words in ((L1, "L1 from uniform"), (PACE, "rounds per day")):
        own = figures.filter(metric=metric)
        if len(own) == 1:
            row = own.row(0, named=True)
            found.append(Tile(_figure(metric, row["baseline_mean"]), f"{words}, A"))
            found.append(Tile(_figure(metric, row["mean"]), f"{words}, B", _against(row["difference"])))
    return tuple(found)
