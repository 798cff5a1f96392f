"""The tables of trials, a row for each setting or optimizer, and how each setting stands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from inspect import getdoc
from typing import NamedTuple, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.formatting import (
    NO_VALUE,
    above_dust,
    capitalized,
    count,
    count_range,
    duration,
    fixed,
    listing_of,
    number,
    percent,
)
from fedsim.measure.grammar import MetricCondition
from fedsim.measure.metrics import describe, split
from fedsim.pages.methods import never_below_start
from fedsim.pages.metric_wording import MetricWording, wording_of
from fedsim.pages.tables import Table
from fedsim.run.scaled import in_whole
from fedsim.scenario.privacy import scope_of
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, interval, margins
from fedsim.trials.decision import (
    L1,
    MATTERS,
    REPORTED,
    ROUNDS,
    SHORTAGE,
    UNDECIDED,
    UPDATES,
    Why,
    aim_of,
    bias_metric,
    judge_settings,
    open_settings,
    pace_metric,
    planned_seeds,
    stopped_early,
)
from fedsim.trials.optimizers import (
    MEMORY,
    RANK,
    allowed,
    by_optimizer,
    cases_won,
    configured,
    footprint,
    in_case,
    metrics_of,
    ranked,
    ranked_by,
    twins,
    winners,
)
from fedsim.trials.trials import FACTS, SIDE, Trials, names_of

SETTINGS = 60  # settings in a table at most
_METRICS = 7  # metrics in a table at most
_GROUPS = 3  # groups in a table at most
_TIED = 3  # optimizers that a cell names at most beside the best
_OPTIMIZERS = 4  # optimizers whose losses are taken apart at most
_INTERVAL = "mean ± half of the 95 % interval"
HEADLINES = (
    *("participation.reported_l1_uniform", L1, UPDATES, "participation.coverage"),
    *("rounds.shortage_share", "rounds.duration.p50", "sessions.reported_share", "sessions.wasted_share"),
)
"""Metrics shown first, those that differ between settings; the losses of optimizers come after them."""
_COSTS = (
    *("learning.*.time_to_target", "sessions.device_hours", "fleet.bytes_down", "fleet.bytes_up", "fleet.energy"),
    *("fleet.peak_sessions", "fleet.cost", "privacy.epsilon", "participation.coverage"),
)
"""Metrics of which a decision shows columns, after that which it chooses by."""
_FACTS = (
    *("updates.per_day", "reports.per_day", "participation.never_share", "participation.below_half_fair_share"),
    *("participation.worst_group_ratio", "fleet.bytes_down", "fleet.bytes_up", "fleet.energy", "fleet.cost"),
    *("sessions.device_hours", "privacy.epsilon", "group.GROUP.reported_ratio", "group.GROUP.below_half_fair_share"),
)
"""Metrics of the first stage of a decision, before anything is trained."""
_MOST_FACTS = 12
_OF_GROUP = {"group.GROUP.reported_ratio": "of fair share", "group.GROUP.below_half_fair_share": "below half"}
"""What metrics of groups are called in heads: reports in multiples of the fair share, devices below half of it."""
_WORDS = {Standing.REFERENCE: "best", Standing.DIFFERS: "worse"}
"""Words for how a setting stands, where they are not those of its state."""
FAILED = "training failed"
FIGURE_WORDS = {
    "bias": "distance of the mean model from the optimum",
    "excess_loss": "excess loss over uniform participation",
    "loss": "loss",
}
"""What optimizers are compared by."""

SettingColumn: TypeAlias = tuple[str, Sequence[str]]


class Ranking(NamedTuple):
    """What is compared, how it is named, and by what."""

    contrasts: Contrasts
    names: tuple[str, ...]
    wording: MetricWording

    def value(self, row: int) -> str:
        """Write the mean of a row: ``23.8 %``."""
        return self.wording.write(float(self.contrasts.mean[row]))

    def at(self, row: int) -> str:
        """Write the mean of a row, and which it is: ``23.8 % at R = 4``."""
        return f"{self.value(row)} at {self.names[row]}"

    def sure(self, row: int) -> str:
        """Write the mean of a row with its interval: ``23.8 % ± 0.3 points``."""
        return self.wording.mean(float(self.contrasts.mean[row]), self.contrasts.margin[:, row])


def ranking_of(trials: Trials) -> Ranking:
    """Return settings compared by what is chosen by; or the optimizers of trials of these, by their mean rank."""
    if (optimizers := by_optimizer(trials)) is None:
        return Ranking(judge_settings(trials).contrast, trials.names, wording_of(aim_of(trials).metric))
    words, short = f"mean rank over {count(len(optimizers.meta['ranked']), 'case')}", partial(number, digits=2)
    write = apart = partial(fixed, decimals=2)
    if ranked_by(optimizers) != RANK:
        words, write, apart = FIGURE_WORDS[optimizers.meta["figure"]], partial(number, digits=4), short
    return Ranking(ranked(optimizers), optimizers.names, MetricWording(RANK, words, words, write=write, apart=apart))


def means(trials: Trials, metric: str) -> Floats:
    """Return a metric at every setting, the mean over its seeds."""
    return interval(trials.samples(metric)).mean


def order_of(contrast: Contrasts) -> list[int]:
    """Return the settings from the best to the worst: those that are compared, then the others by their means."""
    others = np.argsort(contrast.mean if contrast.less_is_better else -contrast.mean, kind="stable")
    return list(dict.fromkeys([*contrast.order.tolist(), *others.tolist()]))


def _along(trials: Trials) -> list[int] | None:
    """Return the settings in the order of the one axis, where none of them is significantly better; else None."""
    states, axes = judge_settings(trials).contrast.states, trials.axes
    ranked = not untrained(trials) and bool({Standing.DIFFERS, Standing.UNTESTED} & {*states})
    if ranked or trials.scenario.decide is not None or len(axes) != 1 or not axes[0].ordered:
        return None
    return [int(row) for row in np.argsort(axes[0].x, kind="stable")]


@lru_cache(maxsize=4)
def start_ratios(trials: Trials) -> tuple[Mapping[str, float], ...]:
    """Return of each setting the late losses of its optimizers, in multiples of those of their initial models."""
    every = [never_below_start(trials.curves(row)) for row in range(len(trials.settings))]
    return tuple({name: ratio for name, ratio in of.items() if name not in twins(trials)} for of in every)


def gained_nothing(trials: Trials) -> list[str]:
    """Name the optimizers of which no training got below the loss of its initial model."""
    named, ratios = [axis.parameters for axis in trials.axes] == [("learning.optimizers",)], dict[str, float]()
    for row, of in enumerate(start_ratios(trials)):
        text = trials.texts("learning.optimizers")[row] if named else ""
        ratios |= {text or name: min(ratio, ratios.get(text or name, ratio)) for name, ratio in of.items()}
    return [name for name, least in ratios.items() if least >= 1]


def untrained(trials: Trials) -> bool:
    """Say whether no training got below the loss of its initial model: then no setting is better than another."""
    ratios = [ratio for of in start_ratios(trials) for ratio in of.values()]
    return SIDE not in trials.parameters and bool(ratios) and min(ratios) >= 1


def marked(trials: Trials) -> int | None:
    """Return the setting that charts mark as chosen; None where nothing is: of sides, cases, and what is untested."""
    judged = judge_settings(trials)
    none = Standing.UNTESTED in judged.contrast.states and trials.scenario.decide is None
    none |= judged.why is Why.OPEN or SIDE in trials.parameters or by_optimizer(trials) is not None
    return None if none or untrained(trials) else judged.choice


def why_unfit(trials: Trials, row: int, time: bool = False) -> str:
    """Say what a setting did not do that others did: its rounds, and in which time it would, or find clients."""
    if not stopped_early(trials)[row]:
        return f"found too few clients in {percent(float(means(trials, SHORTAGE)[row]))} of its rounds"
    done, stop, most = trials.samples("rounds.count")[row], trials.scenario.stop, trials.scenario.stop.most_s
    text = f"did {count_range(float(np.nanmin(done)), float(np.nanmax(done)))} of {count(stop.most_rounds, 'round')}"
    if not (time and np.isfinite(most) and np.nanmean(done)):
        return text
    return f"{text} in {duration(most)}: all would take about {duration(most * stop.most_rounds / np.nanmean(done))}"


def standings(trials: Trials) -> tuple[str, ...]:
    """Say how each setting stands, in a word or with the condition that it misses."""
    judged = judge_settings(trials)
    contrast, ends = judged.contrast, judged.front if judged.open else None
    conditions = [(each, means(trials, each.metric)) for each in judged.aim.conditions]
    bias, pace = (means(trials, metric) for metric in (bias_metric(trials), pace_metric(trials)))

    def standing(row: int) -> str:
        if not np.isfinite(contrast.mean[row]):
            return "no result"
        if untrained(trials):
            return FAILED
        if not judged.kept[row]:
            missed, values = next((each, values) for each, values in conditions if not each.holds(float(values[row])))
            value = wording_of(missed.metric).write(float(values[row])) if np.isfinite(values[row]) else "no value"
            return f"misses {' '.join(missed.text.split())} ({value}{beyond(missed, float(values[row]))})"
        if judged.unfit[row]:
            return why_unfit(trials, row)
        if ends is None:
            state = contrast.standing(row)
            word = "dropped" if judged.dropped[row] else "" if state is None else _WORDS.get(state, state.value)
            word = "as good" if state is Standing.FEW and row in judged.tied else word
            word = "" if SIDE in trials.parameters and not contrast.differs.any() else word  # none is the best
            return word if row != judged.choice or row == contrast.best else f"chosen, {word}"
        even, fast = ("more even", "faster") if len(contrast.mean) == 2 else ("most even", "fastest")
        better = [each for each in ends if each != row and pace[each] >= pace[row] and bias[each] <= bias[row]]
        beaten = f"beaten by {trials.names[better[-1]]}" if better else "in between"
        return {ends[-1]: even, ends[0]: fast}.get(row, beaten)

    return tuple(map(standing, range(len(trials.settings))))


def beyond(condition: MetricCondition, value: float) -> str:
    """Say by which share of its limit a value misses a condition."""
    ends = [end.value for end in (condition.low, condition.high) if end is not None]
    near = min(ends, key=lambda end: abs(value - end))
    if not (near and np.isfinite(value)):
        return ""
    return f", {percent(abs(value / near - 1))} {'below' if value < near else 'above'}"


def moves(trials: Trials, metric: str) -> bool:
    """Tell whether settings differ significantly in a metric, or differ at all where nothing is tested."""
    contrast = contrasts(trials, metric, less_is_better=True)
    mean = contrast.mean[np.isfinite(contrast.mean)]
    if len(mean) < 2 or not np.ptp(mean) > 1e-12 * np.abs(mean).max():
        return False
    return bool(contrast.differs.any()) or not contrast.rows(*UNDECIDED)


def differ(values: Floats, by: float) -> bool:
    """Say whether settings differ in a figure by more than this share of the largest."""
    finite = values[np.isfinite(values)]
    return bool(np.ptp(finite) > by * np.abs(finite).max()) if len(finite) else False


def headlines(trials: Trials) -> tuple[str, ...]:
    """Choose the metrics to show: those of the scenario's own and of `HEADLINES` that move, then groups and losses."""
    metrics, other = trials.metrics, {L1, REPORTED} - {bias_metric(trials)}
    shares = [name for name in metrics if (entry := split(name)[0]) and entry.name == "group.GROUP.ratio"]
    ends = shares[:_GROUPS]
    ends += [name for figure in ("loss", "excess_loss") for name in metrics_of(trials, figure).values()]
    listed = [*(name for name in metrics if describe(name) is None), *(name for name in HEADLINES if name in metrics)]
    listed = [name for name in listed if name not in other]
    if SIDE in trials.parameters:  # of single runs a loss that has not converged is no finding
        open_ = {name for name, each in metrics_of(trials, "converged").items() if (trials.samples(each) == 0).any()}
        ends = [name for name in ends if split(name)[1].get("optimizer") not in open_]
    moving = [name for name in (*listed, *ends) if moves(trials, name) and differ(means(trials, name), MATTERS)]
    if {*moving} & {*shares} and len(shares) <= _GROUPS:  # one group says nothing without the others
        moving = list(dict.fromkeys((*moving, *shares)))
    return tuple(moving or listed or metrics)[: _METRICS - 1]


def shown_metrics(trials: Trials) -> tuple[str, ...]:
    """Choose the metrics of the table of settings: what is chosen by, and what was asked, costs, or differs."""
    metric, _, conditions = aim_of(trials)
    asked = [metric, *(each.metric for each in conditions), trials.scenario.headline or metric]
    costs = [name for each in _COSTS for name in trials.metrics if fnmatchcase(name, each)]
    always = [*asked, bias_metric(trials), pace_metric(trials), *(costs if trials.scenario.decide is not None else [])]
    if trials.stage == FACTS:
        templates = {name: entry.name for name in trials.metrics if (entry := split(name)[0]) is not None}
        facts = [name for each in _FACTS for name, template in templates.items() if template == each]
        return tuple(name for name in dict.fromkeys((*asked, *facts)) if name in trials.metrics)[:_MOST_FACTS]
    named = dict[str, str]()  # two metrics may differ by a factor alone
    for name in (*always, *headlines(trials)):
        if name in trials.metrics:
            named.setdefault(wording_of(name).words, name)
    cases = by_optimizer(trials) is not None  # of which optimizers have a table of their own
    return tuple(each for each in named.values() if not (cases and each.startswith("learning.")))[:_METRICS]


def settings_table(trials: Trials) -> Table:
    """Show each setting, the best first: how it stands, how far from the best, and its figures with intervals."""
    judged, columns = judge_settings(trials), list[SettingColumn]()
    contrast, same = judged.contrast, list[str]()
    wording, names = wording_of(aim_of(trials).metric), names_of((*trials.parameters, *trials.tuned))
    short = trials.meta.get("part", {}).get("short")
    so_far = f"by day {short['days']}" if short else ""
    choice = by_optimizer(trials) is None  # else settings are cases, none of which is better
    several, stands = choice and contrast.best is not None and len(trials.settings) > 1, standings(trials)
    tested, tie = several and not untrained(trials), SIDE in trials.parameters and not contrast.differs.any()
    far = "From the other" if tie else "From the best"
    words = int(trials.stage == FACTS)
    if trials.stage == FACTS:
        stands_now = np.where(judged.kept, "left", np.where(open_settings(trials), "uncertain", "goes")).tolist()
        columns = [("Standing", stands_now)]
    elif several:
        ends = zip(contrast.difference.tolist(), contrast.tested_half.tolist(), strict=True)
        by = wording.of_column(float(np.abs(contrast.mean).max(where=np.isfinite(contrast.mean), initial=0.0)))
        apart = [by.difference(mean, half) if np.isfinite(mean) else NO_VALUE for mean, half in ends]
        apart[contrast.best or 0] = NO_VALUE
        columns = [("Standing", stands)] if len({*stands} - {""}) > 1 else []
        columns, words = [*columns, *([(far, apart)] if tested else [])], len(columns)
    for metric in shown_metrics(trials):
        entry, parts = split(metric)
        words_of = _OF_GROUP.get(entry.name) if entry is not None and trials.stage == FACTS else None
        head, column = column_of(trials, metric, f"{parts['group']}: {words_of}" if words_of else "")
        head = f"{head}, {so_far}" if so_far and not in_whole(metric)[2] else head
        if len({*column}) > 1 or len(column) < 2 or metric == judged.aim.metric:
            columns.append((head, column))
        elif metric in {bias_metric(trials), pace_metric(trials), *_COSTS}:
            same.append(f"{wording_of(metric).head} {column[0]}")
    if trials.stage == FACTS and not judged.kept.all():
        missing = np.where(judged.kept, NO_VALUE, stands).tolist()
        columns.append(("Misses", missing))
    columns += [(f"{names[path]} (tuned)", trials.texts(path)) for path in trials.tuned] if choice else []
    seeds = planned_seeds(trials)
    if len(np.unique(seeds)) > 1:
        columns.append(("Seeds", [number(each) for each in seeds.tolist()]))
    note = "Dropped settings had no further seeds. " if judged.dropped.any() else ""
    note += f"The same everywhere: {', '.join(same)}. " if same else ""
    if any(down != up for each in shown_metrics(trials) for down, up in margins(trials.samples(each)).T if up > 0):
        note += "In brackets: the least and the greatest of the seeds, where an interval would reach below 0. "
    if any(each.endswith("time_to_target") for each in shown_metrics(trials)):
        note += "Time to target is that of the first loss at it, from which a loss may rise again; in brackets: of so "
        note += "many seeds, where others never reach it. "
    if tested and trials.stage != FACTS and not contrast.untested:
        note += f"{far}: {'' if contrast.scale else 'with the interval of the '}{contrast.test}."
    along, of = _along(trials), f": {_INTERVAL}" * (len(trials.seeds) > 1)
    caption = f"{'Settings' if choice else 'Cases'}{', the best first' * (tested and along is None and not tie)}{of}"
    order = (along or order_of(contrast)) if several and not tie else None
    return setting_table(trials, caption, columns, words=words, note=note, order=order)


def cells(mean: Floats, margin: Floats, metric: str = "") -> list[str]:
    """Write means of a metric with their intervals, down and up, under the head of its wording."""
    write = wording_of(metric).of_column(float(np.abs(mean).max(where=np.isfinite(mean), initial=0.0))).cell
    ends = zip(mean.tolist(), np.broadcast_to(margin, (2, len(mean))).T, strict=True)
    return [write(value, each) if np.isfinite(value) else NO_VALUE for value, each in ends]


def column_of(trials: Trials, metric: str, words: str = "") -> SettingColumn:
    """Make the column of a metric, under its short name in the registry or other words.

    Of a target that some runs never reach it says how many did.
    """
    column = cells(means(trials, metric), margins(trials.samples(metric)), metric)
    if metric.endswith("_to_target"):
        seeds, of = np.isfinite(trials.samples(metric)).sum(axis=1).tolist(), len(trials.seeds)
        column = [f"{cell} ({n} of {of})" if 0 < n < of else cell for cell, n in zip(column, seeds, strict=True)]
    return capitalized(words or wording_of(metric).head), column


def setting_table(
    trials: Trials,
    caption: str,
    columns: Sequence[SettingColumn],
    *,
    words: int = 0,
    note: str = "",
    order: Sequence[int] | None = None,
) -> Table:
    """Make a table of columns (head, cells), after those with the values that name each setting.

    The first `words` of the columns hold words. `order` is that of the settings, by default that of the sweep.
    """
    values = [trials.texts(name) for name in trials.parameters]
    rows = tuple(zip(*values, *(cells for _, cells in columns), strict=True))
    rows = rows if order is None else tuple(rows[row] for row in order)
    left = len(rows) - SETTINGS
    more = f"The first {SETTINGS} settings; {count(left)} more are in the results of the sweep." if left > 0 else ""
    header = (*names_of(trials.parameters).values(), *(head for head, _ in columns))
    return Table(caption, header, rows[:SETTINGS], len(trials.parameters) + words, " ".join(filter(None, (note, more))))


_PROMISES: tuple[tuple[str, str, Callable[[Floats], float], Callable[[float], str]], ...] = (
    ("n promised", "privacy.rounds", np.max, count),
    ("n observed", "rounds.count", np.max, count),
    ("b promised", "privacy.separation", np.min, count),
    ("b observed", "participation.separation.least", np.min, count),
    ("k promised", "privacy.most", np.max, count),
    ("k observed", "participation.most", np.max, count),
    ("Sensitivity", "privacy.sensitivity", np.max, number),
    ("Noise multiplier", "privacy.noise_multiplier", np.min, number),
    ("Epsilon", "privacy.epsilon", np.max, number),
    ("Epsilon if the schedule is known", "privacy.epsilon_if_known", np.max, number),
)


def privacy_table(trials: Trials) -> Table | None:
    """Show n, b and k as promised and as observed, and the noise, at every setting; None without ``privacy``.

    Observed are the most rounds and participations and the least distance of any run of a setting: the values that
    would break the promise first.
    """
    if "privacy.epsilon" not in trials.metrics:
        return None
    columns, secret = list[SettingColumn](), "privacy.epsilon_if_known" in trials.metrics
    days = trials.meta.get("part", {}).get("short", {}).get("days", np.inf)  # of which rounds are carried on to the end
    for head, metric, over, write in _PROMISES[: None if secret else -1]:
        values = trials.samples(metric)
        part = f" in {count(days, 'day')}" if days < np.inf and "observed" in head else ""
        if part and metric == "rounds.count":
            values = np.minimum(values, np.rint(days * trials.samples(ROUNDS)))
        samples = [row[np.isfinite(row)] for row in values]
        columns.append((head + part, [write(over(row)) if len(row) else NO_VALUE for row in samples]))
    note = (
        "n rounds, at least b rounds from one participation of a client to its next, at most k of them. Only what is "
        "promised, because the server enforces it, counts for epsilon; what was observed is luck where it is better. "
        f"Epsilon is for {scope_of(secret)}{', this page included' * secret}, at the scenario's delta."
    )
    if trials.scenario.privacy is not None and trials.scenario.privacy.training == "noise":
        note += " It covers the model of one setting: those of one seed share their noise, and neither choosing among "
        note += "settings nor tuning them by these losses is in it."
    promised = {*zip(*(cells for head, cells in columns if head.endswith("promised")), strict=True)}
    caption = "What is promised to privacy, and what the runs had"
    return replace(setting_table(trials, caption, columns, note=note), aside=len(promised) < 2)


_PARTS = {"whole loss": "above_optimum"} | {
    words: f"{'_'.join(words.split())}_loss" for words in ("bias", "participation noise", "privacy noise")
}
"""What the loss of an optimizer above the optimum and its parts are called, and the ends of their names."""


def loss_parts(trials: Trials) -> dict[str, dict[str, str]]:
    """Return the metrics of the loss above the optimum and its parts, by what they are called, of every optimizer.

    That which is chosen by comes first.
    """
    chosen = split(aim_of(trials).metric)[1].get("optimizer")
    names = sorted(metrics_of(trials, _PARTS["bias"]), key=lambda name: name != chosen)[:_OPTIMIZERS]
    return {name: {words: f"learning.{name}.{figure}" for words, figure in _PARTS.items()} for name in names}


def parts_table(trials: Trials, name: str, parts: Mapping[str, str]) -> Table:
    """Show the parts of the loss of one optimizer at every setting."""
    columns = [column_of(trials, metric, words) for words, metric in parts.items()]
    return setting_table(trials, f"Loss of “{name}” above the optimum: {_INTERVAL}", columns)


def optimizer_table(optimizers: Trials, failed: Sequence[str] = ()) -> Table:
    """Show optimizers, the best first, with ranks or figures, and what they cost; `failed` have no rank."""
    contrast, figure, cases = ranked(optimizers), optimizers.meta["figure"], optimizers.meta["cases"]
    several = len(cases) > 1
    gone = dict.fromkeys(optimizers.meta["lost"], "far off") | dict.fromkeys(optimizers.meta["elsewhere"], "not ranked")
    names, gone = optimizers.settings["optimizer"], gone | dict.fromkeys(failed, FAILED)
    states = [contrast.standing(row) or Standing.UNTESTED for row in range(len(contrast.mean))]
    words = _WORDS | ({Standing.REFERENCE: "best so far"} if Standing.FEW in states else {})
    stands, won = [words.get(state, state.value) for state in states], cases_won(optimizers)
    stands = [str(len(won.get(row, ()))) for row in range(len(names))] if several else stands
    values = [[gone.get(name, text) for name, text in zip(names, stands, strict=True)]]
    ends = zip(names, contrast.difference.tolist(), contrast.tested_half.tolist(), strict=True)
    no_rank, apart = {*failed, *(names[row] for row in contrast.order[:1].tolist())}, wording_of(RANK).difference
    away = [apart(*end) if np.isfinite(end[0]) and name not in no_rank else NO_VALUE for name, *end in ends]
    ranks = cells(contrast.mean, contrast.margin)
    ranks = [NO_VALUE if several and name in gone else rank for name, rank in zip(names, ranks, strict=True)]
    values += [*[away] * (not several), ranks]
    head = ("Best in", "Mean rank") if several else ("Standing", "From the best", capitalized(FIGURE_WORDS[figure]))
    needs = [footprint(kind) for kind in optimizers.settings["kind"]]
    for what in ("sent", "client", "per_participant"):
        values.append([NO_VALUE if each is None else str(getattr(each, what)) for each in needs])
    rows = tuple((names[row], *(each[row] for each in values)) for row in order_of(contrast))
    note = "Best in: so many cases, or not significantly worse. " if several else f"From the best: {contrast.test}. "
    note = f"{note * (several or not contrast.untested)}Kept: models, of each client."
    caption = f"Optimizers, the best first, and what they cost: {_INTERVAL}"
    return Table(caption, ("Optimizer", *head, "Models a report", "Kept on devices", "On the server"), rows, 2, note)


def figures_of(optimizers: Trials) -> Floats:
    """Return what optimizers are compared by, the means over the seeds, (cases, optimizers)."""
    return np.stack([means(optimizers, in_case(optimizers.meta["figure"], case)) for case in optimizers.meta["cases"]])


def times_of(optimizers: Trials, row: int, others: Sequence[int]) -> dict[int, Floats]:
    """Return figures in multiples of those of a row, of each ranked case; of others whose figures are all above 0."""
    figures = figures_of(optimizers)[np.isin(optimizers.meta["cases"], optimizers.meta["ranked"])]
    return {at: figures[:, at] / figures[:, row] for at in others if (figures[:, [at, row]] > 0).all()}


def figures_table(optimizers: Trials) -> Table | None:
    """Show the means of all optimizers by case; None of one case."""
    order, names, none = order_of(ranked(optimizers)), optimizers.settings["optimizer"], np.full((2, 1), np.nan)
    every = zip(optimizers.meta["cases"], figures_of(optimizers), strict=True)
    rows = [(head_of(optimizers, case), *np.array(cells(each, none))[order].tolist()) for case, each in every]
    caption = f"{capitalized(FIGURE_WORDS[optimizers.meta['figure']])} by case: means"
    return Table(caption, ("Case", *(names[row] for row in order)), tuple(rows), 1, aside=True) if rows[1:] else None


def methods_table(trials: Trials, optimizers: Trials) -> Table:
    """Say of each built-in optimizer what it is."""
    from fedsim.learning.optimizers import OPTIMIZERS

    rows, written = list[tuple[str, ...]](), configured(trials)
    for name, kind in optimizers.settings["optimizer", "kind"].iter_rows():
        if footprint(kind) is not None:
            what = (getdoc(OPTIMIZERS.find(kind)) or "").partition("\n")[0]
            here = written[name].in_words if name in written and len(optimizers.meta["cases"]) < 2 else kind
            rows.append((name, what + f" Here: {here}." * (here != kind)))
    return Table("What optimizers are", ("Optimizer", "What it is"), tuple(rows), 2, aside=len(rows) > _OPTIMIZERS)


def winners_table(optimizers: Trials) -> Table | None:
    """Show who is the best in each case within the memory that there is; None where memory makes no difference."""
    within, cases = allowed(optimizers), optimizers.meta["cases"]
    if len(cases) < 2 or (within == within[0]).all():
        return None
    won = zip(cases, winners(optimizers), strict=True)
    rows = tuple((head_of(optimizers, case), *(_won(optimizers, case, best) for best in cells)) for case, cells in won)
    figure = FIGURE_WORDS[optimizers.meta["figure"]]
    or_loss = ", or the loss where no optimum is known" if optimizers.meta["figure"] == "bias" else ""
    note = (
        "Paired tests over the seeds, 5\N{NARROW NO-BREAK SPACE}% for the whole table: what ties is not significantly "
        f"worse than the best, with its {figure}{or_loss}; who is not ranked is left out. Memory is what an optimizer "
        "says of itself."
    )
    caption, head = "Which optimizer, by case and by the memory that there is", ("Case", *MEMORY)
    return Table(caption, head, rows, len(head), note)


def head_of(optimizers: Trials, case: str) -> str:
    """Return a case, with a mark where its figure is a loss among distances."""
    return f"{case} (loss)" if case in optimizers.meta.get("by_loss", ()) else case


def _won(optimizers: Trials, case: str, best: Sequence[int]) -> str:
    """Write a cell of the table of winners: the best that is ranked, with its figure, and which ones tie with it."""
    gone, names = {*optimizers.meta["lost"], *optimizers.meta["elsewhere"]}, optimizers.settings["optimizer"]
    best = [row for row in best if names[row] not in gone]
    if not best:
        return NO_VALUE
    value = above_dust(float(optimizers.samples(in_case(optimizers.meta["figure"], case))[best[0]].mean()), 2)
    tied = listing_of([names[row] for row in best[1:]], _TIED)
    return f"{names[best[0]]} {value}{f'; tied: {tied}' if tied else ''}"


def leaders(optimizers: Trials) -> list[tuple[int, str, int]]:
    """Return the best-ranked optimizer within each of `MEMORY`, each once, within the most that it leads.

    With it: who keeps no more than that, and in how many cases it wins among these; one that is alone, among all.
    """
    within, order = allowed(optimizers), ranked(optimizers).order.tolist()
    best = {at: next((row for row in order if within[at][row]), None) for at in reversed(range(len(MEMORY)))}
    most = {row: at for at, row in best.items() if row is not None}
    alone = within[:, [*cases_won(optimizers)]].sum(axis=1) < 2
    like = {at: f"{'the only one' if alone[at] else 'of those'} with {MEMORY[at].lower()}" for at in most.values()}
    return [(row, like[at], len(cases_won(optimizers, at * (not alone[at]))[row])) for row, at in most.items()][::-1]
