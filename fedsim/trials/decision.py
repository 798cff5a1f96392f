"""Which setting to choose: by `decide` the best that keeps its conditions, else the most even or the fastest."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
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
UPDATES, TAKEN = "updates.per_day", "reports.per_day"
SHORTAGE, MOSTLY = "rounds.shortage_share", 0.5  # in more than this share of its rounds a setting finds too few
_COSTS = ("fleet.cost", "sessions.device_hours", "sessions.count")
"""Of settings that tie the one with the least of the first of these that tells them apart is chosen."""
MATTERS = 0.05  # of the best figure: a smaller difference is worth no cost and no more seeds
_REACHED = re.compile(r"learning\..+_to_target")
_ROUNDING = 1e-9  # distances that differ by less are the same, however they were summed
SLACK = 0.1
"""By what share a figure of a short run of a part of the devices may be off."""
_KEPT = 8  # trials whose answers are kept, since many sentences ask for the same


@lru_cache(_KEPT)
def bias_metric(trials: Trials) -> str:
    """Return the L1 distance of reports from uniform, which reached the model; of selections, where all reported.

    Between runs that need not be as long as one another, or have as much noise in other ways, it is without noise.
    """
    reported, selected = trials.samples(REPORTED), trials.samples(L1)
    finite = np.isfinite(reported)
    both = finite & np.isfinite(selected)
    metric = REPORTED if finite.any() and (np.abs(reported - selected)[both] > 1e-9).any() else L1
    clean = without_noise(metric)
    there = np.isfinite(trials.samples(clean))
    if lengths_differ(trials):  # longer runs have less noise, and short ones cannot tell how much
        return clean if there.any() else metric
    return clean if SIDE in trials.parameters and (np.isfinite(trials.samples(metric)) == there).all() else metric


def without_noise(distance: str) -> str:
    """Return the metric of a distance from uniform without what noise adds to it."""
    return f"{distance}_corrected"


def lengths_differ(trials: Trials) -> bool:
    """Say whether settings differ in when a run stops."""
    return any(name.partition(".")[0] == "stop" for name in trials.swept)


@lru_cache(_KEPT)
def pace_metric(trials: Trials) -> str:
    """Return the model updates per day; the reports taken per day, where settings want updates of different sizes."""
    wanted = trials.samples("reports.wanted")
    return TAKEN if len(np.unique(wanted[np.isfinite(wanted)])) > 1 else UPDATES


class Aim(NamedTuple):
    """What settings are chosen by."""

    metric: str
    less_is_better: bool
    conditions: tuple[MetricCondition, ...]  # what a setting must keep


def aim_of(trials: Trials) -> Aim:
    """Return what `decide` of the scenario says, or else the metric of `headline`, of which more or less is better.

    Without both it is the bias, or the loss where settings differ only in when a run stops.

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
        alone = lengths_differ(trials) and all(name.partition(".")[0] == "stop" for name in trials.swept)
        losses = [each for name, each in metrics_of(trials, "loss").items() if alone and name not in twins(trials)]
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
def keeping(trials: Trials) -> "Feasible":
    """Say which settings keep the conditions."""
    return judged(trials, aim_of(trials).conditions)


def judged(trials: Trials, conditions: Sequence[MetricCondition]) -> "Feasible":
    """Say which settings keep some conditions; that a short run of a part misses one is sure beyond a tenth of it."""
    slack = [SLACK if in_whole(each.metric)[2] else math.inf for each in conditions] if trials.stage == FACTS else None
    values = [trials.samples(each.metric) for each in conditions]
    return feasible(conditions, values, len(trials.settings), slack)


def open_settings(trials: Trials) -> Bools:
    """Say which settings do not surely miss a condition, those without a result among them."""
    complete = trials.settings["setting"].is_in(trials.runs.filter(status=COMPLETE)["setting"].implode()).to_numpy()
    return np.asarray(keeping(trials).kept | ~keeping(trials).sure | ~complete)


@lru_cache(_KEPT)
def compared(trials: Trials) -> Contrasts:
    """Compare, by the objective, the settings that keep its conditions and were not dropped."""
    metric, less, _ = aim_of(trials)
    eligible = (open_settings(trials) if trials.stage == FACTS else keeping(trials).kept) & ~dropped(trials)
    if dropped(trials).any():  # what a target needs is known of those alone that reach it with every seed
        eligible &= reached(metric, trials.samples(metric), eligible)
    return contrasts(trials, metric, less_is_better=less, eligible=eligible)


@lru_cache(_KEPT)
def trade_off(trials: Trials) -> Ints | None:
    """Return the settings that no other beats in the means of bias and pace, the fastest first; None without both."""
    bias, pace = trials.samples(bias_metric(trials)), trials.samples(pace_metric(trials))
    return front(bias, pace) if (np.isfinite(bias) & np.isfinite(pace)).any() else None


def is_open(trials: Trials) -> bool:
    """Say whether the most even setting costs pace, and nothing says what that is worth."""
    by_bias = trials.scenario.decide is None and aim_of(trials).metric == bias_metric(trials)
    ends = trade_off(trials) if by_bias else None
    return ends is not None and bool(np.ptp(interval(trials.samples(bias_metric(trials))).mean[ends]) > _ROUNDING)


@lru_cache(_KEPT)
def tied(trials: Trials) -> list[int]:
    """Return the best setting and those that tie with it, the best first: none beyond one that is worse or untested."""
    states, order = compared(trials).states, compared(trials).order.tolist()
    return [*order[:1], *takewhile(lambda row: states[row] in {Standing.TIED, Standing.SAME}, order[1:])]


def stopped_early(trials: Trials) -> Bools:
    """Say which settings did not run until their last round, in the mean over the seeds."""
    asked = (
        math.inf
        if trials.stage == FACTS or lengths_differ(trials) or SIDE in trials.parameters
        else trials.scenario.stop.most_rounds
    )
    return np.asarray((asked < math.inf) & (interval(trials.samples("rounds.count")).mean < asked))


class Cheapest(NamedTuple):
    """A setting that is taken of those that tie for the best."""

    row: int
    cost: str  # what it has least of: a metric, or a parameter; "" if it is the best of those that can be taken
    among: list[int]  # the settings that were compared by that, the best first


@lru_cache(_KEPT)
def cheapest(trials: Trials) -> Cheapest | None:
    """Return the cheapest of the settings that tie for the best and are as good; None where that is the best itself.

    As good is what is within 5 % of the best figure. Settings that ended early, or found too few clients in most
    rounds, are left out as long as others tie.
    """
    short = (interval(trials.samples(SHORTAGE)).mean > MOSTLY) | stopped_early(trials)
    sound, mean = [row for row in tied(trials) if not short[row]], compared(trials).mean
    if not sound:
        return None
    among = [row for row in sound if abs(mean[row] - mean[sound[0]]) <= MATTERS * abs(mean[sound[0]])]
    waits = [name for name in trials.parameters if is_separation(name) and trials.numbers(name) is not None]
    for name in (*_COSTS, *waits) if len(among) > 1 else ():
        cost = trials.numbers(name) if name in waits else interval(trials.samples(name)).mean
        if cost is not None and np.isfinite(cost[among]).all() and np.ptp(cost[among]) > 1e-3 * cost[among].max():
            return Cheapest(among[int(np.argmin(cost[among]))], name, among)
    return Cheapest(sound[0], "", tied(trials)) if sound[0] != compared(trials).best else None


def chosen(trials: Trials) -> int | None:
    """Return the best setting, or the `cheapest` that is as good; the fastest, where no slower one is more even."""
    contrast, ends = compared(trials), trade_off(trials)
    if is_open(trials) and ends is not None and contrast.states[fastest := int(ends[0])] in UNDECIDED:
        return fastest
    least = None if is_open(trials) or trials.stage == FACTS else cheapest(trials)
    return contrast.best if least is None else least.row


UNDECIDED = (Standing.TIED, Standing.SAME, Standing.FEW)
"""What is not significantly worse than the best."""


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
