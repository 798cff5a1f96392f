"""Which setting to choose, and how each stands: headlines, charts and advice read the table of `judge_settings`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import RunError
from fedsim.measure.grammar import ConditionError, MetricCondition, parse_condition
from fedsim.measure.metrics import split
from fedsim.run.scaled import in_whole
from fedsim.trials.contrasts import Contrasts, Standing, contrasts, interval
from fedsim.trials.optimizers import metrics_of, twins
from fedsim.trials.trials import COMPLETE, FACTS, SIDE, Trials, is_separation

L1, REPORTED, PULL = (f"participation.{of}l1_uniform" for of in ("", "reported_", "pull_"))
UPDATES, TAKEN, ROUNDS = "updates.per_day", "reports.per_day", "rounds.per_day"
SHORTAGE, MOSTLY = "rounds.shortage_share", 0.5  # in more than this share of its rounds a setting finds too few
_DONE = 0.95  # of its rounds a setting that is chosen should do, as long as others are as good
_COSTS = ("fleet.cost", "sessions.device_hours", "sessions.count")
"""Of settings that tie the one with the least of these, in this order, is chosen; then the fastest."""
ALIKE = 0.02  # by which share costs and paces differ that are no reason to choose
MATTERS = 0.05  # of what `worth` says: a smaller difference is worth no cost and no more seeds
_REACHED = re.compile(r"learning\..+_to_target")
_ROUNDING = 1e-9  # distances that differ by less are the same, however they were summed
SLACK = 0.1
"""By what share a figure of a short run of a part of the devices may be off."""
_KEPT = 8  # trials whose answers are kept, since many sentences ask for the same


@lru_cache(_KEPT)
def bias_metric(trials: Trials) -> str:
    """Return the L1 distance of reports from uniform, which reached the model; of selections, where all reported.

    Between settings with more reports and with fewer, which have less noise and more, it is without noise.
    """
    reported, selected = trials.samples(REPORTED), trials.samples(L1)
    finite = np.isfinite(reported)
    both = finite & np.isfinite(selected)
    metric = REPORTED if finite.any() and (np.abs(reported - selected)[both] > 1e-9).any() else L1
    clean = without_noise(metric)
    there = np.isfinite(trials.samples(clean))
    if lengths_differ(trials):  # longer runs have less noise, and short ones cannot tell how much
        return clean if there.any() else metric
    taken = reports_of(trials)
    uneven = SIDE in trials.parameters or np.ptp(taken) > MATTERS * taken.max(initial=0.0)
    return clean if uneven and (np.isfinite(trials.samples(metric)) == there).all() else metric


def reports_of(trials: Trials) -> Floats:
    """Return how many reports each setting takes, in the mean over its seeds."""
    taken = trials.samples("sessions.count") * np.nan_to_num(trials.samples("sessions.reported_share"), nan=1.0)
    return np.asarray(np.nan_to_num(taken).mean(axis=1))


def without_noise(distance: str) -> str:
    """Return the metric of a distance from uniform without what noise adds to it."""
    return f"{distance}_corrected"


def lengths_differ(trials: Trials) -> bool:
    """Say whether settings differ in when a run stops."""
    return any(name.partition(".")[0] == "stop" for name in trials.swept)


@lru_cache(_KEPT)
def pace_metric(trials: Trials) -> str:
    """Return the model updates per day, or rounds; reports taken, where settings want updates of different sizes."""
    wanted = trials.samples("reports.wanted")
    if len(np.unique(wanted[np.isfinite(wanted)])) > 1:
        return TAKEN
    return next((each for each in (UPDATES, ROUNDS) if each in trials.metrics), UPDATES)


_TRAINING = {"stop", "learning", "privacy"}
"""Keys on which it does not depend who takes part."""


class Aim(NamedTuple):
    """What settings are chosen by."""

    metric: str
    less_is_better: bool
    conditions: tuple[MetricCondition, ...]  # what a setting must keep


def aim_of(trials: Trials) -> Aim:
    """Return what `decide` of the scenario says, or else the metric of `headline`, of which more or less is better.

    Without both it is the bias, or the loss where settings differ only in what changes nobody's participation.

    Raises
    ------
    RunError
        `decide` in `sweep.json` is not what fedsim writes there.
    """
    decide = trials.scenario.decide
    if decide is None:
        asked = split(trials.scenario.headline or "")[0]
        if asked is not None and asked.better and trials.scenario.headline in trials.metrics:
            return Aim(trials.scenario.headline, asked.better == "lower", ())
        alone = {name.partition(".")[0] for name in trials.swept} <= _TRAINING
        of, learning = metrics_of(trials, "loss") if alone else {}, trials.scenario.learning
        first = [each.label for each in (() if learning is None else learning.optimizers)]
        losses = [of[name] for name in dict.fromkeys((*first, *of)) if name in of and name not in twins(trials)]
        return Aim([*losses, bias_metric(trials)][0], True, ())
    try:
        conditions = tuple(map(parse_condition, decide.subject_to))
    except ConditionError as error:
        raise RunError(f"sweep.json: its scenario's `decide` cannot be read: {error}") from None
    if trials.stage == FACTS and decide.metric not in trials.metrics:  # of what is not trained yet
        measured = tuple(each for each in conditions if each.metric in trials.metrics)
        return Aim(pace_metric(trials), False, measured)
    return Aim(decide.metric, decide.minimize is not None, conditions)


def planned_seeds(trials: Trials) -> Ints:
    """Return how many seeds each setting was given, (settings,): those that a decision dropped have fewer."""
    planned = dict(trials.runs.group_by("setting").len().iter_rows())
    return np.array([planned.get(setting, 0) for setting in trials.settings["setting"]], dtype=np.int64)


@lru_cache(_KEPT)
def dropped(trials: Trials) -> Bools:
    """Say which settings a decision gave no further seeds."""
    seeds = planned_seeds(trials)
    return np.asarray(seeds < seeds.max(initial=0))


@lru_cache(_KEPT)
def judged(trials: Trials, conditions: tuple[MetricCondition, ...]) -> "Feasible":
    """Say which settings keep some conditions; that a short run of a part misses one is sure beyond a tenth of it."""
    slack = [SLACK if in_whole(each.metric)[2] else math.inf for each in conditions] if trials.stage == FACTS else None
    values = [trials.samples(each.metric) for each in conditions]
    return feasible(conditions, values, len(trials.settings), slack)


def open_settings(trials: Trials) -> Bools:
    """Say which settings do not surely miss a condition, those without a result among them."""
    complete = trials.settings["setting"].is_in(trials.runs.filter(status=COMPLETE)["setting"].implode()).to_numpy()
    kept, sure = judged(trials, aim_of(trials).conditions)
    return np.asarray(kept | ~sure | ~complete)


UNDECIDED = (Standing.TIED, Standing.SAME, Standing.FEW)
"""What is not significantly worse than the best."""


class Why(StrEnum):
    """Why a setting is chosen."""

    BEST = "the best"  # of those that are compared, by what is chosen by
    FASTEST = "the fastest"  # and no slower one is significantly more even
    OPEN = "the most even"  # faster ones are less even, and nothing says what pace is worth
    TIES = "the least cost"  # of those that tie with the best, and are as good or save more than they lose
    ENOUGH = "long enough"  # longer runs change nothing that matters


@dataclass(frozen=True, eq=False)
class JudgedSettings:
    """How each setting stands, by what settings are chosen by: one table, which all that is said and drawn reads."""

    aim: Aim
    contrast: Contrasts  # of the settings that can be chosen
    kept: Bools  # the settings that keep the conditions
    sure: Bools  # of which settings that is significant, or that they do not
    dropped: Bools  # the settings that a decision gave no further seeds
    unfit: Bools  # those that did not do their rounds, or mostly found too few clients, where others are as good
    front: Ints | None  # the settings that no other beats in the means of bias and pace, the fastest first
    open: bool  # whether the most even setting costs pace, and nothing says what that is worth
    tied: list[int]  # the best setting and those that are as good: they tie, or lie within 5 % for sure
    choice: int | None
    why: Why
    cost: tuple[str, ...]  # what the choice has less of than those that tie with it, or more of: metrics or parameters


@lru_cache(_KEPT)
def judge_settings(trials: Trials) -> JudgedSettings:
    """Judge the settings: those that can be chosen are compared, and of those that tie the cheapest is chosen."""
    metric, less, conditions = aim = aim_of(trials)
    kept, sure = judged(trials, conditions)
    away, front_ = dropped(trials), trade_off(trials)
    eligible = (open_settings(trials) if trials.stage == FACTS else kept) & ~away
    if away.any():  # what a target needs is known of those alone that reach it with every seed
        eligible &= reached(metric, trials.samples(metric), eligible)
    by_bias = trials.scenario.decide is None and metric == bias_metric(trials)
    ends = front_ if by_bias else None
    open_ = ends is not None and bool(np.ptp(interval(trials.samples(bias_metric(trials))).mean[ends]) > _ROUNDING)
    contrast = contrasts(trials, metric, less_is_better=less, eligible=eligible)
    unfit = (interval(trials.samples(SHORTAGE)).mean > MOSTLY) | stopped_early(trials)
    unfit &= eligible & (not open_) & (trials.stage != FACTS)
    if not (~unfit[contrast.rows(Standing.REFERENCE, Standing.TIED, Standing.SAME)]).any():
        unfit[contrast.order[:1]] = False  # nothing else is as good
    if unfit.any():
        contrast = contrasts(trials, metric, less_is_better=less, eligible=eligible & ~unfit)
    ties = contrast.order[:1].tolist()
    reach = np.abs(contrast.difference) + np.nan_to_num(contrast.half, nan=np.inf)
    for row in contrast.order[1:].tolist():
        alike = contrast.states[row] is Standing.FEW and reach[row] <= MATTERS * worth(contrast)
        if contrast.states[row] not in {Standing.TIED, Standing.SAME} and not alike:
            break  # none beyond one that is worse or untested
        ties.append(row)
    choice, why = contrast.best, Why.OPEN if open_ else Why.BEST
    if trials.stage == FACTS and trials.scenario.decide is not None:
        choice = None  # nothing is trained yet
    cost: tuple[str, ...] = ()
    if open_ and ends is not None and contrast.states[int(ends[0])] in UNDECIDED:
        choice, why = int(ends[0]), Why.FASTEST
    elif not open_ and trials.stage != FACTS and len(ties) > 1:
        choice, cost = _cheapest(trials, contrast, ties)
        why = Why.TIES if cost else Why.BEST
    if is_of_lengths(trials) and (last := _enough(trials, contrast)) is not None:
        choice, why, cost = last, Why.ENOUGH, ()
    of_each = (kept, sure, away, np.asarray(unfit), front_)
    return JudgedSettings(aim, contrast, *of_each, open_, ties, choice, why, cost)


def is_of_lengths(trials: Trials) -> bool:
    """Say whether settings are lengths of a run, of which it is asked from which on nothing changes."""
    return trials.scenario.decide is None and [axis.parameters for axis in trials.axes] in [
        [("stop.rounds",)],
        [("stop.duration",)],
    ]


def _enough(trials: Trials, contrast: Contrasts) -> int | None:
    """Return the shortest run from which on all are as good as the best; None where that is the longest."""
    if (best := contrast.best) is None:
        return None
    as_good = (np.abs(contrast.difference) <= MATTERS * worth(contrast)) & ~contrast.differs
    as_good[[best, *contrast.rows(Standing.TIED, Standing.SAME)]] = True
    order = np.argsort(trials.axes[0].x, kind="stable")
    apart = np.flatnonzero(~as_good[order])
    first = int(apart[-1]) + 1 if len(apart) else 0
    return int(order[first]) if first < len(order) - 1 else None


def trade_off(trials: Trials) -> Ints | None:
    """Return the settings that no other beats in the means of bias and pace, the fastest first; None without both."""
    bias, pace = trials.samples(bias_metric(trials)), trials.samples(pace_metric(trials))
    return front(bias, pace) if (np.isfinite(bias) & np.isfinite(pace)).any() else None


def stopped_early(trials: Trials) -> Bools:
    """Say which settings did not do most of the rounds that they should, in the mean over the seeds."""
    uneven = trials.stage == FACTS or lengths_differ(trials) or SIDE in trials.parameters
    asked = math.inf if uneven else trials.scenario.stop.most_rounds
    return np.asarray((asked < math.inf) & (interval(trials.samples("rounds.count")).mean < _DONE * asked))


def _cheapest(trials: Trials, contrast: Contrasts, ties: list[int]) -> tuple[int, tuple[str, ...]]:
    """Return which of the settings that tie to take, and why: the cheapest of those as good, then the fastest.

    As good is what lies within 5 % of `worth`; a tie beyond that, if it saves a larger share of the first cost that is
    known than the share of `worth` that it loses.
    """
    lost, reasons = np.abs(contrast.mean - contrast.mean[ties[0]]) / max(worth(contrast), 1e-300), list[str]()
    waits = [name for name in trials.parameters if is_separation(name) and trials.numbers(name) is not None]
    among = [row for row in ties if lost[row] <= MATTERS]
    for name in (*_COSTS, pace_metric(trials), *waits):
        values = trials.numbers(name) if name in waits else interval(trials.samples(name)).mean
        if values is None or not np.isfinite(values[ties]).all():
            continue
        cost = -values if name == pace_metric(trials) else values
        if not reasons and name in _COSTS and cost[ties[0]] > 0:
            saving = [row for row in ties if 1 - cost[row] / cost[ties[0]] > max(lost[row], ALIKE)]
            among = list(dict.fromkeys([*among, *saving]))
        near = cost[among] - cost[among].min() <= ALIKE * np.abs(cost[among]).max()
        if not near.all():
            among, reasons = np.array(among)[near].tolist(), [*reasons, name]
    return among[0], tuple(reasons)


def worth(contrast: Contrasts) -> float:
    """Return what differences are a share of: the best figure, or what choosing changes, where that is less."""
    best, apart = abs(float(contrast.mean[contrast.reference or 0])), np.abs(contrast.difference[contrast.differs])
    return min(best, float(apart.max())) if len(apart) else best


class Feasible(NamedTuple):
    """Which settings keep the conditions in the mean over the seeds, and of which that is significant."""

    kept: Bools
    sure: Bools


def feasible(
    conditions: Sequence[MetricCondition], values: Sequence[Floats], settings: int, slack: Sequence[float] | None = None
) -> Feasible:
    """Judge conditions on the values, (settings, seeds), of their metrics; one without a value is not kept.

    The judgement of a setting is significant if no interval of a mean reaches over the limit that decides it; `slack`
    widens the intervals by a share of the means for each condition.
    """
    kept, sure_kept = np.ones((2, settings), dtype=bool)
    surely_missed = np.zeros(settings, dtype=bool)
    for condition, observed, more in zip(conditions, values, slack or [0.0] * len(values), strict=True):
        mean, half = interval(observed)
        reach = np.where(np.isfinite(half), half, 0.0) + (more * np.abs(mean) if 0 < more < math.inf else more)
        means, lows, highs = (
            np.array([condition.holds(float(value)) for value in ends]) for ends in (mean, mean - reach, mean + reach)
        )
        kept &= means
        sure_kept &= lows & highs
        surely_missed |= ~means & ~_reaches(condition, mean, reach)
    return Feasible(kept, np.where(kept, sure_kept, surely_missed))


def _reaches(condition: MetricCondition, mean: Floats, reach: Floats) -> Bools:
    """Say which intervals have a part within the limits."""
    low = -np.inf if condition.low is None else condition.low.value
    high = np.inf if condition.high is None else condition.high.value
    return np.isfinite(mean) & (mean + reach >= low) & (mean - reach <= high) & (reach > 0)


def reached(metric: str, values: Floats, kept: Bools) -> Bools:
    """Say which settings have a value for every seed, where the metric is one of a target that some runs never reach.

    Where no setting that is `kept` has, and of other metrics, all count.
    """
    there = np.isfinite(values)
    whole: Bools = there.sum(axis=1) == there.any(axis=0).sum()
    if _REACHED.fullmatch(metric) is None or not (whole & kept).any():
        return np.ones(len(values), dtype=bool)
    return whole


class Misses(NamedTuple):
    """How many runs of a setting miss a condition, of how many, and the value farthest beyond it."""

    missed: int
    runs: int
    worst: float | None  # None where no run that misses it has a value


def misses(trials: Trials, condition: MetricCondition) -> list[Misses]:
    """Judge a condition on the complete runs of each setting; a run without a value misses it."""
    complete, outcomes = dict(trials.runs.filter(status=COMPLETE).group_by("setting").len().iter_rows()), list[Misses]()
    for setting, values in zip(trials.settings["setting"], trials.samples(condition.metric).tolist(), strict=True):
        beyond = [value for value in values if math.isfinite(value) and not condition.holds(value)]
        runs = complete.get(setting, 0)
        missed = runs - sum(map(condition.holds, values))
        outcomes.append(Misses(missed, runs, min(beyond, key=condition.margin, default=None)))
    return outcomes


def front(less: Floats, more: Floats) -> Ints:
    """Find the Pareto front of the means of two metrics, (settings, seeds): less of the first and more of the second.

    Returned are its rows, those with the most of the second first.
    """
    a, b = interval(less).mean, interval(more).mean
    finite, rows = np.flatnonzero(np.isfinite(a) & np.isfinite(b)), list[int]()
    for row in finite[np.lexsort((a[finite], -b[finite]))].tolist():
        if not rows or a[row] < a[rows[-1]] or (a[row], b[row]) == (a[rows[-1]], b[rows[-1]]):
            rows.append(row)
    return np.array(rows, dtype=np.int64)
