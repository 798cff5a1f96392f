"""The report of a sweep: what to choose, what that costs, and how sure it is."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.analysis.metrics import describe
from fedsim.common.formatting import capitalized, count
from fedsim.findings.choice import SweepChoice, choice_of, choice_title, loss_parts
from fedsim.findings.expectations import sweep_verdict
from fedsim.findings.finished_sweep import FinishedSweep
from fedsim.findings.metric_wording import L1, PACE, wording_of
from fedsim.findings.sweep import moves, sweep_answer, sweep_setup, sweep_tiles
from fedsim.findings.tournament import Tournament, leaders, ranks, tied, tournament_of, tournament_title
from fedsim.report import sweep_tables as tables
from fedsim.report.charts import Chart
from fedsim.report.charts.sweep_lines import line_chart, parts_chart
from fedsim.report.charts.sweep_settings import TRADE_OFF, IntervalRows, interval_chart, trade_off_chart
from fedsim.report.document import ReportDocument, Section
from fedsim.report.provenance import sweep_provenance
from fedsim.trials.decision import interval

HEADLINES = (
    *("participation.reported_l1_uniform", L1, PACE, "participation.coverage"),
    *("participation.gini", "rounds.shortage_share", "rounds.duration.p50", "sessions.reported_share"),
    "sessions.wasted_share",
)
"""Metrics shown first, those that move along the sweep; the losses of optimizers come after them."""

_TRENDS = 8  # metrics with charts of their own at most
_NAMES = ("distance", TRADE_OFF, "objective", "ranks", "parts-*", "trend-*")
"""Every chart that the report of a sweep can have; a star stands for the name of a metric."""


def sweep_document(sweep: FinishedSweep) -> ReportDocument:
    """Compute everything that the report of a sweep shows."""
    found, chosen, methods = choice_of(sweep), headlines(sweep), tournament_of(sweep)
    ranked = tables.choice_table(sweep, found) if methods is None else tables.tournament_table(methods)
    won = None if methods is None else tables.winners_table(methods)
    charts, points = sweep_charts(sweep, found, chosen, methods), tables.point_table(sweep, chosen)
    parts = [tables.parts_table(sweep, each) for each in loss_parts(sweep)]
    return ReportDocument(
        kind="sweep",
        name=sweep.name,
        finding=capitalized(choice_title(found)) if methods is None else tournament_title(methods),
        question=sweep.scenario.question,
        setup=sweep_setup(sweep, methods),
        description=sweep.scenario.description,
        status=sweep.meta.get("status", ""),
        verdict=sweep_verdict(sweep),
        answer=tuple(sweep_answer(sweep, found, methods)),
        tiles=tuple(sweep_tiles(sweep, found, methods)),
        sections=(
            Section(
                "bias", "Bias and what it costs" if methods is None else "Optimizers", charts.get("bias", ()), [won]
            ),
            Section("parts", "What the loss is made of", charts.get("parts", ()), parts),
            Section("privacy", "Privacy", (), [tables.privacy_table(sweep)]),
            Section("trends", "Along the sweep", charts.get("trends", ())),
            Section("groups", "Groups", (), [tables.group_ratio_table(sweep)]),
            Section("points", "Settings", (), [ranked, points]),
        ),
        names=_NAMES,
        tables=[ranked, points],
        origins={"": sweep_provenance(sweep.meta)},
    )


def headlines(sweep: FinishedSweep) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then losses."""
    known = sweep.metrics
    ends = [name for name in known if re.fullmatch(r"learning\..+\.(loss|excess_loss)", name)]
    listed = [*(name for name in known if describe(name) is None), *(name for name in HEADLINES if name in known)]
    selections = sweep.bias_metric != L1  # are a line of the text; what was reported is the same where all reported
    listed = [name for name in listed if name != L1] if selections else [n for n in listed if ".reported_" not in n]
    moving = [name for name in (*listed, *ends) if moves(sweep, name)]
    return tuple(moving or listed or known)[:_TRENDS]


def sweep_charts(
    sweep: FinishedSweep, found: SweepChoice, chosen: Sequence[str], methods: Tournament | None = None
) -> Mapping[str, tuple[Chart, ...]]:
    """Compute the data of every chart of a sweep, by the section that shows it: the first one is the picture."""
    along = sweep.axis
    if methods is not None:
        return {"bias": (_method_chart(methods),)}
    if along is None or along.size < 2:
        return {}
    drawn = {each.name: parts_chart(sweep, each, found.chosen) for each in loss_parts(sweep)}
    objective, shown, first = found.wording.metric, {sweep.bias_metric, PACE}, list[Chart | None]()
    if objective not in shown and np.isfinite(found.mean).any():
        shown |= {objective}
        own = drawn.pop(objective.split(".")[1], None) if objective.endswith(".above_optimum") else None
        first = [own or line_chart(sweep, found.wording, "objective", _title(objective), None, found.chosen)]
    if found.paces_differ and np.isfinite(found.bias).any():
        bias = trade_off_chart(found)
    else:
        theory = "participation.l1_uniform_theory" if sweep.bias_metric == L1 else None
        wording = wording_of(sweep.bias_metric)
        bias = line_chart(sweep, wording, "distance", "Distance from uniform (TV)", theory, found.chosen)
    trends = [
        line_chart(sweep, wording_of(metric), "trend-" + re.sub(r"[^A-Za-z0-9_-]+", "-", metric), _title(metric))
        for metric in chosen
        if metric not in shown and moves(sweep, metric)
    ]
    made = {"bias": (*first, bias), "parts": drawn.values(), "trends": trends}
    return {section: tuple(each for each in charts if each is not None) for section, charts in made.items()}


def _method_chart(methods: Tournament) -> Chart:
    """Draw the mean rank of each optimizer with its interval."""
    by_seed, (order, first) = ranks(methods.values), leaders(methods.values)
    mean, half = interval(by_seed)
    names, told = tuple(methods.names[row] for row in order), np.array([row in first for row in order])
    short = methods.words.removeprefix("the ").replace("distance of the mean model", "distance")
    unit, legend = f"mean rank of {len(order)} by {short} (1: best)", ("leads", "worse than the first")
    data = IntervalRows(names, mean[order], half[order], told, legend, unit, None, tied=tied(methods.values))
    notes = [f"By {methods.words}; told by paired tests over the seeds, of all pairs together for grey lines."]
    return interval_chart(data, "ranks", f"Mean ranks over {count(len(methods.cases), 'case')}", notes)


def _title(metric: str) -> str:
    known, words = describe(metric), wording_of(metric).words.removeprefix("the ")
    if words != metric or known is None:
        return capitalized(words)
    meaning = known.meaning.partition(":")[0].partition(";")[0].rstrip(".")
    if meaning.startswith(("The same", "That ")):
        return metric  # which only the line above it in a list explains
    owner = re.match(r"(?:learning|group)\.(.+)\.[a-z0-9_]+$", metric)
    return f"{meaning}, “{owner[1]}”" if owner else meaning
