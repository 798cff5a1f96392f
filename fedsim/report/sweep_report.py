"""The report of a sweep: what changes along it, by how much, and how sure that is."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.findings.finding import BIAS, WHAT, Finding, Tile
from fedsim.findings.finished_sweep import COMPLETE, FinishedSweep, names_of
from fedsim.findings.formatting import count
from fedsim.report import sweep_tables as tables
from fedsim.report.charts import Absent, Chart
from fedsim.report.charts.sweep_lines import line_chart, line_data, parts_chart
from fedsim.report.charts.sweep_settings import (
    EFFECTS,
    TRADE_OFF,
    effects_chart,
    map_chart,
    paces_differ,
    trade_off_chart,
)
from fedsim.report.document import ReportDocument, Section
from fedsim.report.provenance import sweep_provenance
from fedsim.report.sweep_choice import SweepChoice, choice_of, choice_words, loss_parts, parts_sentences
from fedsim.report.sweep_figures import BIAS_WORDING, L1, L1_THEORY, PACE, PACE_UNIT, PACE_WORDING, wording_of
from fedsim.report.sweep_words import chance_warning, course_of, extremes, trust_sentences, what_was_simulated

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

_TRENDS = 10  # metrics with charts of their own at most
_ENDS = ("loss", "excess_loss")
_LOSSES = 3  # optimizers described at most

_NAMES = ("distance", TRADE_OFF, EFFECTS, "parts-*", "trend-*", "map-*")
"""Every chart that the report of a sweep can have; a star stands for the name of a metric."""


def sweep_document(sweep: FinishedSweep) -> ReportDocument:
    """Compute everything that the report of a sweep shows."""
    found, chosen, limits = choice_of(sweep), headlines(sweep), tables.limits_of(sweep)
    points, ranked = tables.point_table(sweep, chosen), tables.choice_table(sweep, found)
    charts, parts = sweep_charts(sweep, found, chosen), loss_parts(sweep)
    settings = (
        *(ranked, tables.limit_table(sweep, limits), tables.tuned_table(sweep), points),
        *(tables.difference_table(sweep, chosen), tables.failure_table(sweep)),
    )
    return ReportDocument(
        kind="sweep",
        name=sweep.name,
        finding=choice_words(found)[0],
        question=sweep.scenario.question,
        description=sweep.scenario.description,
        status=sweep.meta.get("status", ""),
        verdict=tables.sweep_verdict(sweep, limits),
        answer=tuple(sweep_answer(sweep, found)),
        tiles=tuple(_tiles(sweep)),
        sections=(
            Section("bias", "Bias and what it costs", charts["bias"]),
            Section(
                "parts",
                "What the loss is made of",
                charts["parts"],
                [tables.parts_table(sweep, each) for each in parts],
            ),
            Section("privacy", "Privacy", (), [tables.privacy_table(sweep)]),
            Section("trends", "Along the sweep", charts["trends"]),
            Section("groups", "Groups", (), [tables.group_ratio_table(sweep)]),
            Section("points", "Settings", (), settings),
        ),
        names=_NAMES,
        tables=[ranked, points],
        origins={"": sweep_provenance(sweep.meta)},
    )


def headlines(sweep: FinishedSweep) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then losses."""
    known = sweep.metrics
    ends = [name for name in known if re.fullmatch(rf"learning\..+\.({'|'.join(_ENDS)})", name)]
    own = [name for name in known if describe(name) is None]
    listed = [*own, *(name for name in HEADLINES if name in known)]
    moving = [name for name in (*listed, *ends) if tables.moves(sweep, name)]
    return tuple(moving or listed or known)[:_TRENDS]


def sweep_charts(
    sweep: FinishedSweep, found: SweepChoice, chosen: Sequence[str]
) -> Mapping[str, tuple[Chart | Absent, ...]]:
    """Compute the data of every chart of a sweep, by the section that shows it: each figure in one chart alone."""
    along = sweep.axis
    if along is None or along.size < 2:
        one = "There is one setting: nothing goes along a sweep. Its figures are in the tables."
        return {"bias": (Absent("distance", "Bias along the sweep", one),), "parts": (), "trends": ()}
    scattered = paces_differ(found) and np.isfinite(found.bias).any()
    if scattered:
        bias, shown = trade_off_chart(found), {L1, PACE}
    else:
        bias, shown = _metric_chart(sweep, L1, "distance", "Misplaced turns", L1_THEORY), {L1}
    made = [parts_chart(sweep, each) for each in loss_parts(sweep)]
    tornado = effects_chart(sweep, found.wording, found.values)
    return {
        "bias": (bias, *((tornado,) if tornado is not None else ())),
        "parts": tuple(each for each in made if each is not None),
        "trends": tuple(
            _metric_chart(sweep, metric, f"trend-{_slug(metric)}", _title(metric), None)
            for metric in chosen
            if metric not in shown and tables.moves(sweep, metric)
        ),
    }


def _metric_chart(sweep: FinishedSweep, metric: str, name: str, title: str, theory: str | None) -> Chart | Absent:
    """Draw a metric along the sweep: as lines, or as a map where there would be too many of them."""
    lines, title = line_data(sweep, metric), extremes(sweep, wording_of(metric), title) or title
    over = map_chart(sweep, metric, f"map-{_slug(metric)}", title) if lines is not None and lines.omitted else None
    return over or line_chart(sweep, wording_of(metric), name, title, theory)


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


def sweep_answer(sweep: FinishedSweep, found: SweepChoice) -> Iterator[Finding]:
    """Say in words what to choose, what was simulated, and what the sweep found."""
    if sweep.results.is_empty():
        yield from what_was_simulated(sweep)
        yield Finding("No run has a result: there is nothing to compare.", WHAT, warns=True)
        return
    yield from choice_words(found)[1]
    yield from parts_sentences(sweep, loss_parts(sweep))
    yield from what_was_simulated(sweep)
    if bias := list(course_of(sweep, BIAS_WORDING)):
        unit = "Misplaced are the turns that would have to go to other devices for all devices to have equally many."
        yield from (*bias, Finding(unit, BIAS))
    # How far each optimizer ends from unbiased training; their losses, where that is not known
    losses, excess = (
        [each for each in sweep.metrics if re.fullmatch(rf"learning\..+\.{what}", each)] for what in _ENDS
    )
    for metric in (excess or losses)[:_LOSSES]:
        yield from course_of(sweep, wording_of(metric))
    yield from course_of(sweep, PACE_WORDING)
    yield from trust_sentences(sweep)
    yield from chance_warning(sweep)


def _tiles(sweep: FinishedSweep) -> Iterator[Tile]:
    """Pick the key figures of a sweep."""
    points, complete = len(sweep.points), sweep.runs.filter(status=COMPLETE).height
    yield Tile(count(points), "settings" if points != 1 else "setting", ", ".join(names_of(sweep.parameters).values()))
    yield Tile(count(complete), "runs complete", f"of {count(len(sweep.runs))}")
    names = sweep.point_names()
    for wording, best, words in (
        (BIAS_WORDING, np.nanargmin, "misplaced turns at least"),
        (PACE_WORDING, np.nanargmax, "rounds per day at most"),
    ):
        mean = sweep.estimates(wording.metric).mean
        if np.isfinite(mean).any():
            index = int(best(mean))
            same = int((mean == mean[index]).sum())
            where = f"at {names[index]}" if same == 1 else f"at {count(same)} of {count(points, 'setting')}"
            text = wording.write(float(mean[index])).removesuffix(PACE_UNIT)
            yield Tile(text, words, where if points > 1 else "")
