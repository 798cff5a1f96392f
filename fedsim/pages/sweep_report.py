"""The report of a sweep: what to choose, what that costs, and how sure it is."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.common.formatting import capitalized, count
from fedsim.measure.metrics import describe
from fedsim.pages import sweep_tables as tables
from fedsim.pages.charts import Chart
from fedsim.pages.charts.sweep_lines import line_chart, parts_chart
from fedsim.pages.charts.sweep_settings import TRADE_OFF, IntervalRows, interval_chart, trade_off_chart
from fedsim.pages.choice import loss_parts, objective_wording, paces_differ
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.expectations import sweep_verdict
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.provenance import sweep_provenance
from fedsim.pages.sweep import FIGURE_WORDS, moves, sweep_answer, sweep_setup, sweep_tiles, sweep_title
from fedsim.trials.decision import L1, PACE, UNDECIDED, bias_metric, chosen, compared
from fedsim.trials.optimizers import by_optimizer, ranked
from fedsim.trials.trials import Trials

HEADLINES = (
    *("participation.reported_l1_uniform", L1, PACE, "participation.coverage"),
    *("participation.gini", "rounds.shortage_share", "rounds.duration.p50", "sessions.reported_share"),
    "sessions.wasted_share",
)
"""Metrics shown first, those that move along the sweep; the losses of optimizers come after them."""

_TRENDS = 8  # metrics with charts of their own at most
_NAMES = ("distance", TRADE_OFF, "objective", "ranks", "parts-*", "trend-*")
"""Every chart that the report of a sweep can have; a star stands for the name of a metric."""


def sweep_document(trials: Trials) -> ReportDocument:
    """Compute everything that the report of a sweep shows."""
    shown, optimizers = headlines(trials), by_optimizer(trials)
    ranks = tables.choice_table(trials) if optimizers is None else tables.optimizer_table(optimizers)
    won = None if optimizers is None else tables.winners_table(optimizers)
    charts, points = sweep_charts(trials, shown), tables.point_table(trials, shown)
    parts, first = [tables.parts_table(trials, each) for each in loss_parts(trials)], charts.get("bias", ())
    return ReportDocument(
        kind="sweep",
        name=trials.name,
        finding=sweep_title(trials),
        question=trials.scenario.question,
        setup=sweep_setup(trials),
        description=trials.scenario.description,
        status=trials.meta.get("status", ""),
        verdict=sweep_verdict(trials),
        answer=tuple(sweep_answer(trials)),
        tiles=tuple(sweep_tiles(trials)),
        sections=(
            Section("bias", "Bias and what it costs" if optimizers is None else "Optimizers", first, [won]),
            Section("parts", "What the loss is made of", charts.get("parts", ()), parts),
            Section("privacy", "Privacy", (), [tables.privacy_table(trials)]),
            Section("trends", "Along the sweep", charts.get("trends", ())),
            Section("groups", "Groups", (), [tables.group_ratio_table(trials)]),
            Section("points", "Settings", (), [ranks, points]),
        ),
        names=_NAMES,
        tables=[ranks, points],
        origins={"": sweep_provenance(trials.meta)},
    )


def headlines(trials: Trials) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then losses."""
    known = trials.metrics
    ends = [name for name in known if re.fullmatch(r"learning\..+\.(loss|excess_loss)", name)]
    listed = [*(name for name in known if describe(name) is None), *(name for name in HEADLINES if name in known)]
    selections = bias_metric(trials) != L1  # are a line of the text; what was reported is the same where all reported
    listed = [name for name in listed if name != L1] if selections else [n for n in listed if ".reported_" not in n]
    moving = [name for name in (*listed, *ends) if moves(trials, name)]
    return tuple(moving or listed or known)[:_TRENDS]


def sweep_charts(trials: Trials, shown: Sequence[str]) -> Mapping[str, tuple[Chart, ...]]:
    """Compute the data of every chart of a sweep, by the section that shows it: the first one is the picture."""
    along, row, wording = trials.axis, chosen(trials), objective_wording(trials)
    if (optimizers := by_optimizer(trials)) is not None:
        return {"bias": (_rank_chart(optimizers),)}
    if along is None or along.size < 2:
        return {}
    drawn = {each.name: parts_chart(trials, each, row) for each in loss_parts(trials)}
    objective, even, first = wording.metric, bias_metric(trials), list[Chart | None]()
    known = {even, PACE}
    if objective not in known and np.isfinite(compared(trials).mean).any():
        known |= {objective}
        own = drawn.pop(objective.split(".")[1], None) if objective.endswith(".above_optimum") else None
        first = [own or line_chart(trials, wording, "objective", _title(objective), None, row)]
    if paces_differ(trials) and np.isfinite(trials.samples(even)).any():
        bias = trade_off_chart(trials)
    else:
        theory = "participation.l1_uniform_theory" if even == L1 else None
        bias = line_chart(trials, wording_of(even), "distance", "Distance from uniform (TV)", theory, row)
    trends = [
        line_chart(trials, wording_of(metric), "trend-" + re.sub(r"[^A-Za-z0-9_-]+", "-", metric), _title(metric))
        for metric in shown
        if metric not in known and moves(trials, metric)
    ]
    made = {"bias": (*first, bias), "parts": drawn.values(), "trends": trends}
    return {section: tuple(each for each in charts if each is not None) for section, charts in made.items()}


def _rank_chart(optimizers: Trials) -> Chart:
    """Draw the mean rank of each optimizer with its interval."""
    found, words = ranked(optimizers), FIGURE_WORDS[optimizers.meta["figure"]]
    order = found.order
    told = np.array([row in {found.best, *found.rows(*UNDECIDED)} for row in order.tolist()])
    names = tuple(optimizers.settings["optimizer"][row] for row in order.tolist())
    unit, legend = f"mean rank of {len(order)} (1: best)", ("not told from the first", "worse than the first")
    data = IntervalRows(names, found.mean[order], found.margin[order], told, legend, unit, None)
    title = f"Mean ranks over {count(len(optimizers.meta['cases']), 'case')}"
    return interval_chart(data, "ranks", title, [f"By {words}; told apart by a {found.test}."])


def _title(metric: str) -> str:
    known, words = describe(metric), wording_of(metric).words.removeprefix("the ")
    if words != metric or known is None:
        return capitalized(words)
    meaning = known.meaning.partition(":")[0].partition(";")[0].rstrip(".")
    if meaning.startswith(("The same", "That ")):
        return metric  # which only the line above it in a list explains
    owner = re.match(r"(?:learning|group)\.(.+)\.[a-z0-9_]+$", metric)
    return f"{meaning}, “{owner[1]}”" if owner else meaning
