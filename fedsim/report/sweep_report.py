"""The report of a sweep: what changes along it, by how much, and how sure that is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.report.answer import MODEL, WHAT, Sentence, Tile
from fedsim.report.charts import effects, trade_off
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.loss_parts import parts_chart
from fedsim.report.charts.sweep_lines import line_chart, line_data
from fedsim.report.charts.sweep_maps import map_chart
from fedsim.report.charts.trade_off import paces_differ
from fedsim.report.document import Document
from fedsim.report.finished_sweep import (
    COMPLETE,
    Estimates,
    FinishedSweep,
    estimates,
    names_of,
    paired,
    point_names,
    values_of,
)
from fedsim.report.formatting import NOTHING, count, number
from fedsim.report.measured_points import measured_points
from fedsim.report.provenance import sweep_provenance
from fedsim.report.sweep_axes import axis_of
from fedsim.report.sweep_choice import Choice, choice, finding, sentences
from fedsim.report.sweep_figures import BIAS_TOLD, L1, L1_THEORY, PACE, PACE_TOLD, difference, misplaced, told_of
from fedsim.report.sweep_limits import limit_table, limits_of, sweep_verdict
from fedsim.report.sweep_parts import loss_parts, parts_sentences, parts_tables
from fedsim.report.sweep_privacy import privacy_table
from fedsim.report.sweep_setting import misplaced_means, what_was_simulated
from fedsim.report.sweep_words import chance, extremes, trust, way
from fedsim.report.tables import Table
from fedsim.sweeps.decision import differs, interval

HEADLINES = (
    L1,
    PACE,
    "participation.coverage",
    "participation.gini",
    "rounds.shortage_share",
    "rounds.duration.p50",
    "sessions.reported_share",
    "sessions.wasted_share",
)
"""Metrics shown first, those that move along the sweep; the losses of optimizers come after them."""

TRENDS = 10
"""Metrics with charts of their own at most."""

COLUMNS = 5
"""Metrics in the tables of points at most."""

POINTS = 60
"""Points in those tables at most."""

GROUPS = 8
"""Groups in the table of groups at most."""

LOSSES = 3
"""Optimizers told of at most."""

FAILURES = 20
"""Runs without a result named at most."""

NAMES = ("distance", trade_off.NAME, effects.NAME, "parts-*", "trend-*", "map-*")
"""Every chart that the report of a sweep can have; a star stands for the name of a metric."""


def sweep_document(sweep: FinishedSweep) -> Document:
    """Compute everything that the report of a sweep shows."""
    found, chosen, limits = choice(sweep), headlines(sweep), limits_of(sweep)
    points, origin = point_table(sweep, chosen), sweep_provenance(sweep.meta)
    resolved = sweep.meta.get("scenario")
    question = resolved.get("question") if isinstance(resolved, Mapping) else None
    description, status = sweep.meta.get("description"), sweep.meta.get("status")
    ranked = choice_table(sweep, found)
    return Document(
        kind="sweep",
        name=sweep.name,
        finding=finding(found),
        question=question if isinstance(question, str) else "",
        description=description if isinstance(description, str) else "",
        status=status if isinstance(status, str) else "",
        verdict=sweep_verdict(sweep, limits),
        answer=tuple(sweep_answer(sweep, found)),
        tiles=tuple(sweep_tiles(sweep)),
        charts=sweep_charts(sweep, found, chosen),
        names=NAMES,
        context={
            "ranked": ranked,
            "groups": group_table(sweep),
            "limits": limit_table(sweep, limits),
            "points": points,
            "tuned": tuned_table(sweep),
            "privacy": privacy_table(sweep, POINTS),
            "parts_of_loss": parts_tables(sweep, loss_parts(sweep), POINTS),
            "differences": difference_table(sweep, chosen),
            "failures": failure_table(sweep),
            "provenance": origin,
            "what_if": measured_points(sweep),
        },
        tables=[ranked, points],
        command=origin.command,
        version=origin.version,
    )


def headlines(sweep: FinishedSweep) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then losses."""
    known = sweep.metrics
    ends = [name for name in known if re.fullmatch(r"learning\..+\.(loss|excess_loss)", name)]
    own = [name for name in known if describe(name) is None]
    listed = [*own, *(name for name in HEADLINES if name in known)]
    moving = [name for name in (*listed, *ends) if _moves(sweep, name)]
    return tuple(moving or listed or known)[:TRENDS]


def _moves(sweep: FinishedSweep, metric: str) -> bool:
    """Tell whether a metric differs between settings beyond chance, as far as the seeds tell."""
    mean = estimates(sweep, metric).mean
    known = np.flatnonzero(np.isfinite(mean))
    if len(known) < 2 or not np.ptp(mean[known]) > 1e-12 * np.abs(mean[known]).max():
        return False
    apart = paired(sweep, metric, int(known[np.argmin(mean[known])]))
    # Without a seed in common there is no difference to judge: what the means say is all there is.
    return not np.isfinite(apart.mean).any() or bool(differs(apart.mean, apart.half).any())


def sweep_charts(
    sweep: FinishedSweep, found: Choice, chosen: Sequence[str]
) -> Mapping[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every chart of a sweep, by the section that shows it: each figure in one chart alone."""
    along = axis_of(sweep)
    if along is None or along.size < 2:
        one = "There is one setting: nothing goes along a sweep. Its figures are in the tables."
        return {"bias": (Absent("distance", "Bias along the sweep", one),), "parts": (), "trends": ()}
    scattered = paces_differ(found) and np.isfinite(found.bias).any()
    bias = (
        trade_off.trade_off_chart(found) if scattered else _drawn(sweep, L1, "distance", "Misplaced turns", L1_THEORY)
    )
    shown = {L1, PACE} if scattered else {L1}
    made = [parts_chart(sweep, each) for each in loss_parts(sweep)]
    tornado = effects.effects_chart(sweep, found.told, found.values)
    return {
        "bias": (bias, *((tornado,) if tornado is not None else ())),
        "parts": tuple(each for each in made if each is not None),
        "trends": tuple(
            _drawn(sweep, metric, f"trend-{_slug(metric)}", _title(metric), None)
            for metric in chosen
            if metric not in shown and _moves(sweep, metric)
        ),
    }


def _drawn(sweep: FinishedSweep, metric: str, name: str, title: str, theory: str | None) -> Chart | Absent:
    """Draw a metric along the sweep: as lines, or as a map where there would be too many of them."""
    lines, title = line_data(sweep, metric), extremes(sweep, told_of(metric), title) or title
    over = map_chart(sweep, metric, f"map-{_slug(metric)}", title) if lines is not None and lines.omitted else None
    return over or line_chart(sweep, told_of(metric), name, title, theory)


def _slug(metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", metric).strip("-")


def _title(metric: str) -> str:
    known = describe(metric)
    if known is None:
        return metric
    meaning = known.meaning.partition(":")[0].partition(";")[0].rstrip(".")
    if meaning.startswith(("The same", "That ")):
        return metric  # which only the line above it in a list explains
    owner = re.match(r"(?:learning|group)\.(.+)\.[a-z0-9_]+$", metric)
    return f"{meaning}, {owner[1]}" if owner else meaning


def sweep_answer(sweep: FinishedSweep, found: Choice) -> Iterator[Sentence]:
    """Say in words what to choose, what was simulated, and what the sweep found."""
    if sweep.results.is_empty():
        yield from what_was_simulated(sweep)
        yield Sentence("No run has a result: there is nothing to compare.", WHAT, warns=True)
        return
    yield from sentences(found)
    yield from parts_sentences(sweep, loss_parts(sweep))
    yield from what_was_simulated(sweep)
    if (text := way(sweep, BIAS_TOLD)) is not None:
        yield Sentence(text, BIAS_TOLD.about)
        yield misplaced_means()
    for metric in losses(sweep)[:LOSSES]:
        if (text := way(sweep, told_of(metric))) is not None:
            yield Sentence(text, MODEL)
    if (text := way(sweep, PACE_TOLD)) is not None:
        yield Sentence(text, PACE_TOLD.about)
    yield from trust(sweep)
    yield from chance(sweep)


def losses(sweep: FinishedSweep) -> list[str]:
    """Return how far each optimizer ends from the optimum; their losses, where none is known."""
    excess = [name for name in sweep.metrics if re.fullmatch(r"learning\..+\.excess_loss", name)]
    return excess or [name for name in sweep.metrics if re.fullmatch(r"learning\..+\.loss", name)]


def sweep_tiles(sweep: FinishedSweep) -> Iterator[Tile]:
    """Pick the key figures of a sweep."""
    points, complete = len(sweep.points), sweep.runs.filter(status=COMPLETE).height
    yield Tile(count(points), "settings" if points != 1 else "setting", ", ".join(names_of(sweep.parameters).values()))
    yield Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}")
    names = point_names(sweep)
    for told, best in ((BIAS_TOLD, np.nanargmin), (PACE_TOLD, np.nanargmax)):
        mean = estimates(sweep, told.metric).mean
        if np.isfinite(mean).any():
            index = int(best(mean))
            same = int((mean == mean[index]).sum())
            where = f"at {names[index]}" if same == 1 else f"at {count(same)} of {count(points, 'setting')}"
            text = misplaced(mean[index]) if told is BIAS_TOLD else number(mean[index], 3)
            words = "misplaced turns at least" if told is BIAS_TOLD else "rounds per day at most"
            yield Tile(text, words, where if points > 1 else "")


def choice_table(sweep: FinishedSweep, found: Choice) -> Table | None:
    """Show the settings from the best to the worst, and how far each is from the best; None where there is no best."""
    best = found.ranking.best
    if best is None or len(found.names) < 2:
        return None
    bias, pace = interval(found.bias)[0], interval(found.pace)[0]
    objective = [] if found.told.metric in {L1, PACE} else [found.told.metric]
    ranking, rows = found.ranking, []
    others = [row for row in range(len(found.names)) if row not in ranking.order]
    for row in [*ranking.order.tolist(), *others]:
        far = difference(found.told, float(ranking.difference[row]), float(ranking.half[row]))
        rows.append(
            (
                *(values_of(sweep, name)[row] for name in sweep.parameters),
                found.standing(row),
                *([found.at(row) if np.isfinite(found.mean[row]) else NOTHING] if objective else []),
                far if row != best and np.isfinite(ranking.difference[row]) else NOTHING,
                misplaced(float(bias[row])),
                number(float(pace[row])),
            )
        )
    header = (
        *names_of(sweep.parameters).values(),
        "Standing",
        *objective,
        "From the most even" if found.open else "From the best",
        "Misplaced turns",
        "Rounds per day",
    )
    caption = f"Settings by {found.told.words}"
    left = len(rows) - POINTS
    note = f"The first {POINTS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    return Table(caption, header, tuple(rows[:POINTS]), words=len(sweep.parameters) + 1, note=note)


def group_table(sweep: FinishedSweep) -> Table | None:
    """Show how often groups take part at every setting; None where there are none, or no setting changes it."""
    ratios = [name for name in sweep.metrics if re.fullmatch(r"group\..+(?<!\.participation)\.ratio", name)]
    if not any(_moves(sweep, name) for name in ratios):
        return None
    cells = [_with_halves(estimates(sweep, name)) for name in ratios[:GROUPS]]
    names = [name.removeprefix("group.").removesuffix(".ratio") for name in ratios[:GROUPS]]
    caption = "How often groups take part, in multiples of their share of the devices: mean ± half of the 95 % interval"
    table = _points(sweep, caption, names, cells)
    left = len(ratios) - len(names)
    return (
        replace(table, note=f"{count(left, 'more group')} in the results. {table.note}".rstrip()) if left > 0 else table
    )


def point_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table:
    """Show the means at every point."""
    cells = [_with_halves(estimates(sweep, metric)) for metric in chosen[:COLUMNS]]
    return _points(sweep, "Settings of the sweep: mean ± half of the 95 % interval", chosen[:COLUMNS], cells)


def tuned_table(sweep: FinishedSweep) -> Table | None:
    """Show what was tuned for each setting; None where nothing was."""
    if not sweep.tuned:
        return None
    names = names_of((*sweep.parameters, *sweep.tuned))
    cells = [values_of(sweep, name) for name in sweep.tuned]
    return _points(sweep, "What was tuned for each setting", [names[name] for name in sweep.tuned], cells)


def difference_table(sweep: FinishedSweep, chosen: Sequence[str]) -> Table | None:
    """Show the paired differences of every point from the first; None where there is but one point."""
    if len(sweep.points) < 2 or not chosen:
        return None
    cells = [["first", *_with_halves(paired(sweep, metric))[1:]] for metric in chosen[:COLUMNS]]
    return _points(sweep, "Differences from the first setting, paired by seed", chosen[:COLUMNS], cells)


def _with_halves(found: Estimates) -> list[str]:
    return [
        f"{number(mean)} ± {number(half, 2)}" if np.isfinite([mean, half]).all() else number(mean)
        for mean, half in zip(found.mean, found.half, strict=True)
    ]


def _points(sweep: FinishedSweep, caption: str, metrics: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    values = [values_of(sweep, name) for name in sweep.parameters]
    rows = tuple(zip(*values, *cells, strict=True)) if values or cells else ()
    left = len(rows) - POINTS
    note = f"The first {POINTS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names_of(sweep.parameters).values(), *metrics)
    return Table(caption, header, rows[:POINTS], words=len(sweep.parameters), note=note)


def failure_table(sweep: FinishedSweep) -> Table | None:
    """Show the runs without a result; None where there are none."""
    failed = sweep.runs.filter(sweep.runs["status"] != COMPLETE)
    if failed.is_empty():
        return None
    names = dict(zip(sweep.points["point"].to_list(), point_names(sweep), strict=True))
    rows = tuple(
        (str(run), names.get(point, str(point)), str(seed), str(status))
        for run, point, seed, status in failed.head(FAILURES).iter_rows()
    )
    left = len(failed) - len(rows)
    note = f"{count(left, 'more run')} without a result." if left else ""
    return Table("Runs without a result", ("Run", "Setting", "Seed", "Status"), rows, words=4, note=note)
