"""The report of a comparison: two runs, two sweeps or two points of sweeps, and what differs between them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.common.formatting import NO_VALUE, above_dust, count, percent, signed
from fedsim.measure.metrics import describe, listed
from fedsim.pages.charts import Chart
from fedsim.pages.charts.side_by_side import NAMES, frequency_chart, loss_chart
from fedsim.pages.charts.sweep_settings import IntervalRows, interval_chart
from fedsim.pages.comparison import (
    Looks,
    binding_settings,
    comparison_answer,
    comparison_tiles,
    comparison_title,
    judged,
    of_the_world,
    setting_text,
    what_differs,
)
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.finding import BIAS, COST, MODEL, NEXT, TRUST, WHAT, Finding, command_of
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.provenance import ReportProvenance, run_provenance, sweep_provenance
from fedsim.pages.run import setup_of
from fedsim.pages.sweep_report import HEADLINES
from fedsim.pages.tables import Table
from fedsim.run.files import Change
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import scope_of
from fedsim.trials.compare import Comparison, compare
from fedsim.trials.contrasts import Standing
from fedsim.trials.results import parameters_of
from fedsim.trials.store import SWEEP_FILE, read_sweep
from fedsim.trials.trials import short_name, value_text

_HEADLINE_ROWS = 14  # figures in the first table at most; all are in the second
_SETTINGS = 80  # settings shown at most
_ROUNDING = 1e-12
_ROWS = 250  # rows of figures shown at most
QUESTIONS = (BIAS, MODEL, COST, TRUST, NEXT, WHAT)
_TOLD = ("told from chance", "not told from chance")
_OWN = ("seeds", "baseline_mean", "mean", "difference", "standard_error", "low", "high")


def comparison_document(a: Path, b: Path, confidence: float = 0.95) -> ReportDocument:
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
    figures, looks = _ranked(found.metrics), judged(found)
    moves = pl.col("difference").abs() > _ROUNDING * pl.max_horizontal(1.0, pl.col("mean").abs())
    moved = figures.filter(moves & ~pl.col("metric").str.ends_with("_se"))
    sides = (_side(a), _side(b))
    names, runs = [name for name, _, _ in sides], [run for _, _, run in sides if run is not None]
    answer = list(comparison_answer(found, looks))
    setup = f"{count(max(found.metrics['seeds'], default=0), 'seed')} in common"
    charts: tuple[Chart | None, ...] = tuple(_differences(found, looks))
    if len(runs) == 2:
        answer += [each for letter, run in zip("AB", runs, strict=True) for each in binding_settings(letter, run)]
        charts = (frequency_chart(runs), loss_chart(runs), *charts)
        sweeps = [command_of({"command": each.command}, "sweep", "sweep.seeds=5") for _, each, _ in sides]
        sweeps = [f"{sweep} --out {place}" for sweep, place in zip(sweeps, ("5-a", "5-b"), strict=True) if sweep]
        more = " && ".join([*sweeps, "fedsim compare 5-a 5-b"]) if len(sweeps) == 2 else ""
        answer = [replace(each, command=more) if each.about == NEXT else each for each in answer]
        setup = ", ".join(["one run each", *(each for each in setup_of(runs[0]) if each in setup_of(runs[1]))])
        if runs[0].manifest.get("seed") == runs[1].manifest.get("seed"):
            text = "The seed is the same, so devices that are described alike live the same lives."
            answer.append(Finding(text, TRUST))
    first = _figure_table(moved, "Figures that differ", _HEADLINE_ROWS, "that differ, below") if len(moved) else None
    differing, asked = _setting_table(found.configuration), what_differs(found)
    setup += "; R: rounds a device waits" if "R\N{NO-BREAK SPACE}=" in asked else ""
    return ReportDocument(
        kind="comparison",
        name=f"{names[0]}: A against B" if names[0] == names[1] else " against ".join(names),
        finding=comparison_title(looks),
        question=asked,
        setup=setup,
        answer=tuple(sorted(answer, key=lambda each: QUESTIONS.index(each.about))),
        tiles=tuple(comparison_tiles(looks)),
        description="; ".join(
            f"{letter}: {name} ({place})" for letter, name, place in zip("AB", names, (a, b), strict=True)
        ),
        sections=(
            Section("results", "Results", charts, [first]),
            Section("settings", "Settings", (), [differing]),
            Section("metrics", "All figures", (), [_figure_table(figures, "All figures")], folded=True),
        ),
        names=NAMES,
        tables=[differing, first],
        origins={letter: origin for letter, (_, origin, _) in zip("AB", sides, strict=True)},
    )


def _differences(found: Comparison, looks: Looks) -> Iterator[Chart]:
    """Draw the differences of bias at every setting of two sweeps, or of what is tested, in per cent of A."""
    many = next((metric for metric, own in looks.items() if len(own) > 1), None)
    tested = [(metric, own[0]) for metric, own in looks.items() if np.isfinite(own[0].half[1]) and own[0].mean[0]]
    rows = tested if many is None else [(many, each) for each in looks[many]][: _SETTINGS // 2]
    if not rows:
        return
    scale = np.array([100 / abs(each.mean[0]) if many is None else wording_of(many).scale for _, each in rows])
    apart, half = (np.array(each) for each in zip(*((c.difference[1], c.half[1]) for _, c in rows), strict=True))
    told = np.array([each.states[1] is Standing.DIFFERS for _, each in rows])
    if many is None:
        names = [wording_of(metric).short for metric, _ in rows]
        unit, title = "change from A to B, in % of A", "What changes from A to B, with intervals"
    else:
        names, wording = [found.trials.names[row] for _, row in found.pairs], wording_of(many)
        unit, title = f"{wording.short}, B less A", f"How {wording.words} differs"
    data = IntervalRows(tuple(names[: len(rows)]), scale * apart, scale * half, told, _TOLD, unit, 0.0)
    yield interval_chart(data, NAMES[2], title)


def _side(path: Path) -> tuple[str, ReportProvenance, Run | None]:
    """Return the name of a run, a sweep or a point of one, where its figures come from, and the run where it is one."""
    if path.is_dir() and not (path / SWEEP_FILE).exists():
        run = load_one(path)
        return run.scenario.name, run_provenance(run.manifest), run
    directory, _, point = (str(path), "", "") if path.exists() else str(path).rpartition("@")
    meta = read_sweep(directory)
    name = meta["name"] if isinstance(meta["name"], str) else path.name
    return f"{name}, point {point}" if point else name, sweep_provenance(meta), None


def _setting_table(changes: Sequence[Change]) -> Table | None:
    """Show the settings that differ; None where none does."""
    if not changes:
        return None
    first = of_the_world(changes)
    ordered = [*first, *(change for change in changes if change not in first)]
    left = len(changes) - _SETTINGS
    return Table(
        "Settings that differ",
        ("Setting", "A", "B"),
        tuple((path, setting_text(ours), setting_text(theirs)) for path, ours, theirs in ordered[:_SETTINGS]),
        words=3,
        note=f"{count(left, 'more setting')} in the manifests." if left > 0 else "",
    )


def _ranked(figures: pl.DataFrame) -> pl.DataFrame:
    """Put the figures in the order in which they are read: the headlines, then as the catalogue lists them."""
    order = [*HEADLINES, *(metric.name for metric in listed()), ""]

    def rank(name: str) -> int:
        known = describe(name)
        return order.index(name if name in HEADLINES else "" if known is None else known.name)

    ranks = pl.col("metric").replace_strict({name: rank(name) for name in figures["metric"].unique()})
    return figures.sort(ranks if len(figures) else "metric", "metric", "point", maintain_order=True)


def _figure_table(figures: pl.DataFrame, caption: str, rows: int = _ROWS, rest: str = "in the directories") -> Table:
    """Show figures side by side, with how B differs from A, and by how much that may be chance where it is known."""
    parameters = [name for name in parameters_of(figures) if name not in _OWN]
    several = bool((figures["seeds"] > 1).any())
    cells = []
    for row in figures.head(rows).iter_rows(named=True):
        first, second = (0.0 if abs(row[name]) < _ROUNDING else row[name] for name in ("baseline_mean", "mean"))
        apart = 0.0 if abs(row["difference"]) <= _ROUNDING * max(1.0, abs(first)) else row["difference"]
        values = [
            row["metric"],
            *(value_text(row[name]) for name in parameters),
            above_dust(first, 5),
            above_dust(second, 5),
        ]
        values.append(signed(apart))
        if several:
            known = row["high"] is not None and row["seeds"] > 1
            values.append(above_dust(row["high"] - apart, 2) if known else NO_VALUE)
        values.append(signed(apart / abs(first), percent) if first else NO_VALUE)
        cells.append(tuple(values))
    interval = ("± 95 %",) if several else ()
    header = ("Metric", *map(short_name, parameters), "A", "B", "B \N{MINUS SIGN} A", *interval, "Change")
    left = len(figures) - len(cells)
    notes = [f"{count(left, 'more figure')} {rest}."] if left > 0 else []
    shown = {row[0] for row in cells}
    if any(name.startswith("privacy.epsilon") for name in shown):
        notes.append(f"Epsilon is for {scope_of('privacy.epsilon_if_known' in set(figures['metric']))}.")
    return Table(caption, header, tuple(cells), words=1 + len(parameters), note=" ".join(notes))
