"""Which setting of a sweep to choose: the best by an objective, or the Pareto front of two metrics.

Metrics are (settings, seeds) arrays, NaN where a run has no value. The same seed is the same world at every setting, so
settings are compared seed by seed, with Student's t over the differences as in `fedsim.trials.results`. Of several
differences, Holm's correction says which are significant at 5 % together; the others are ties.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedsim.analysis.verdict import holm_levels
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.intervals import student_quantile
from fedsim.limits.grammar import MetricCondition

CONFIDENCE = 0.95
_ROUNDING = 1e-12
_POWER = 0.8
_MOST_SEEDS = 1000
_REACHED = re.compile(r"learning\..+_to_target")


class Interval(NamedTuple):
    """The mean of each row of values, and half of its 95 % interval by Student's t."""

    mean: Floats  # NaN without a value
    half: Floats  # NaN with fewer than two


def interval(values: Floats) -> Interval:
    """Return the means of values, (settings, seeds), and their intervals."""
    known = np.isfinite(values)
    number = known.sum(axis=-1)
    mean = np.where(known, values, 0.0).sum(axis=-1) / np.maximum(number, 1)
    square = np.where(known, (values - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    freedom = np.maximum(number - 1, 1)
    half = student_quantile(freedom + 1, CONFIDENCE) * np.sqrt(square / freedom / np.maximum(number, 1))
    half = np.where(half > _ROUNDING * np.abs(mean), half, 0.0)
    return Interval(np.where(number > 0, mean, np.nan), np.where(number > 1, half, np.nan))


def told_apart(differences: Floats) -> Bools:
    """Say which rows of paired differences, (settings, seeds), have a mean other than 0, by Student's t and `holm`.

    A row with one seed cannot be tested: it counts as told apart unless it is 0.
    """
    p, (mean, _) = p_values(differences), interval(differences)
    return holm(p) | (np.isnan(p) & (np.abs(np.nan_to_num(mean)) > _ROUNDING))


def p_values(differences: Floats) -> Floats:
    """Return the p value of a mean of 0 of each row (settings, seeds), two-sided; NaN with fewer than two seeds."""
    mean, half = interval(differences)
    return p_of_mean(mean, half, np.isfinite(differences).sum(axis=-1) - 1)


def p_of_mean(mean: Floats, half: Floats, freedom: Ints) -> Floats:
    """Return the p value of a mean of 0, two-sided, from half of its 95 % interval by Student's t; NaN without one."""
    from scipy.special import stdtr  # takes longer to import than a small run, whose page loads this module

    freedom = np.maximum(freedom, 1)
    error = half / student_quantile(freedom + 1, CONFIDENCE)
    # Rounding may leave equal differences a tiny spread.
    t = np.abs(mean) / np.maximum(error, _ROUNDING)
    return np.where(np.isfinite(half), np.where(np.abs(mean) > _ROUNDING, 2 * stdtr(freedom, -t), 1.0), np.nan)


def holm(p: Floats) -> Bools:
    """Say which of several hypotheses are rejected at 5 % together (Holm 1979), by their p values; NaN is never."""
    return p <= holm_levels(p, 1 - CONFIDENCE)


def detectable(half: float, seeds: int, looks: int, of: int | None = None) -> float:
    """Return the least difference that a test sees four times in five, from half of its 95 % interval over `seeds`.

    The test is Student's t at 5 % over the number of `looks`; `of` is another number of seeds, to plan with.
    """
    then = seeds if of is None else of
    spread = half / float(student_quantile(seeds, CONFIDENCE)) * np.sqrt(seeds / then)
    quantiles = student_quantile(then, 1 - (1 - CONFIDENCE) / looks) + student_quantile(then, 2 * _POWER - 1)
    return float(spread * quantiles)


def seeds_needed(difference: float, half: float, seeds: int, looks: int) -> int | None:
    """Return how many seeds would tell a difference, as `detectable` says; None where a thousand would not."""
    enough = (n for n in range(seeds + 1, _MOST_SEEDS + 1) if detectable(half, seeds, looks, n) <= abs(difference))
    return next(enough, None)


class Feasible(NamedTuple):
    """Which settings keep the conditions in the mean over the seeds, and of which that is significant."""

    kept: Bools
    sure: Bools


def feasible(conditions: Sequence[MetricCondition], values: Sequence[Floats], settings: int) -> Feasible:
    """Judge conditions on the values, (settings, seeds), of their metrics; one without a value is not kept.

    The judgement of a setting is significant if no interval of a mean reaches over the limit that decides it.
    """
    kept, sure_kept = np.ones((2, settings), dtype=bool)
    surely_missed = np.zeros(settings, dtype=bool)
    for condition, observed in zip(conditions, values, strict=True):
        mean, half = interval(observed)
        reach = np.where(np.isfinite(half), half, 0.0)
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


@dataclass(frozen=True, eq=False)
class Ranking:
    """Settings by a metric, the best first; all but `order` are arrays over all settings."""

    order: Ints  # rows of the eligible settings that have a value, by their means; of equals the first comes first
    difference: Floats  # from the best, seed by seed
    half: Floats  # of the 95 % interval of the difference
    tied: Bools  # in the order and not the best, but not told apart from it

    @property
    def best(self) -> int | None:
        """The row of the best; None where no setting is in the order."""
        return int(self.order[0]) if len(self.order) else None


def rank(values: Floats, eligible: Bools, *, maximize: bool = False) -> Ranking:
    """Rank settings by a metric, (settings, seeds), with how far each lies from the best."""
    mean, _ = interval(values)
    rows = np.flatnonzero(eligible & np.isfinite(mean))
    order = rows[np.argsort(-mean[rows] if maximize else mean[rows], kind="stable")]
    if not len(order):
        nothing = np.full(len(mean), np.nan)
        return Ranking(order, nothing, nothing, np.zeros(len(mean), dtype=bool))
    difference, half = interval(values - values[order[0]])
    difference = np.where(np.abs(difference) > _ROUNDING * np.abs(mean), difference, 0.0)
    tied = np.zeros(len(mean), dtype=bool)
    tied[order[1:]] = ~told_apart((values - values[order[0]])[order[1:]])
    return Ranking(order, difference, half, tied)


def reached(metric: str, values: Floats, kept: Bools) -> Bools:
    """Say which settings have a value for every seed, where the metric is one of a target that some runs never reach.

    Where no setting that is `kept` has, and of other metrics, all count.
    """
    there = np.isfinite(values)
    whole: Bools = there.sum(axis=1) == there.any(axis=0).sum()
    if _REACHED.fullmatch(metric) is None or not (whole & kept).any():
        return np.ones(len(values), dtype=bool)
    return whole


class Front(NamedTuple):
    """The rows of the Pareto front, by the second metric, the most first; and which settings are dominated."""

    rows: Ints
    dominated: Bools


def front(less: Floats, more: Floats) -> Front:
    """Find the Pareto front of the means of two metrics, (settings, seeds): less of the first and more of the second.

    A setting is dominated by one on the front that is as good in both means, and significantly better in one: p values
    are multiplied by the number of such tests of a setting, and Holm's correction is for the settings.
    """
    (a, _), (b, _) = interval(less), interval(more)
    known, rows = np.flatnonzero(np.isfinite(a) & np.isfinite(b)), list[int]()
    for row in known[np.lexsort((a[known], -b[known]))].tolist():
        if not rows or a[row] < a[rows[-1]] or (a[row], b[row]) == (a[rows[-1]], b[rows[-1]]):
            rows.append(row)
    tests, best, untested = np.zeros(len(a)), np.full(len(a), np.nan), np.zeros(len(a), dtype=bool)
    for row in rows:
        as_good = (a >= a[row]) & (b <= b[row]) & ((a > a[row]) | (b < b[row]))
        for apart in (less - less[row], more - more[row]):
            p = np.where(as_good, p_values(apart), np.nan)
            tests += np.isfinite(p)
            best = np.fmin(best, p)
            untested |= as_good & np.isnan(p) & (np.abs(np.nan_to_num(interval(apart)[0])) > _ROUNDING)
    return Front(np.array(rows, dtype=np.int64), holm(best * tests) | untested)
