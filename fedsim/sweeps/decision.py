"""Which setting of a sweep to choose: the best by an objective, or the Pareto front of two metrics.

Metrics are (settings, seeds) arrays, NaN where a run has no value. The same seed is the same world at every setting, so
settings are compared seed by seed, with Student's t over the differences as in `fedsim.sweeps.results`. A difference
whose 95 % interval contains 0 is a tie.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import fdtri

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.intervals import student_quantile
from fedsim.limits.grammar import MetricCondition

CONFIDENCE = 0.95
OUTLINE = 60
"""Points on the outline of an ellipse."""


def samples(frame: pl.DataFrame, metric: str, points: Sequence[int], seeds: Sequence[int]) -> Floats:
    """Return a metric of `fedsim.sweeps.results.read_results` as (settings, seeds), NaN where there is none."""
    found = np.full((len(points), len(seeds)), np.nan)
    rows, columns = ({each: index for index, each in enumerate(known)} for known in (points, seeds))
    own = frame.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    for point, seed, value in own.select("point", "seed", "value").iter_rows():
        if point in rows and seed in columns:
            found[rows[point], columns[seed]] = value
    return found


def interval(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each row and half of its 95 % interval: NaN without a value, and with one alone."""
    known = np.isfinite(values)
    number = known.sum(axis=-1)
    mean = np.where(known, values, 0.0).sum(axis=-1) / np.maximum(number, 1)
    square = np.where(known, (values - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    freedom = np.maximum(number - 1, 1)
    half = student_quantile(freedom + 1, CONFIDENCE) * np.sqrt(square / freedom / np.maximum(number, 1))
    return np.where(number > 0, mean, np.nan), np.where(number > 1, half, np.nan)


def differs(mean: Floats, half: Floats) -> Bools:
    """Say which differences are significant: their interval leaves 0 out; with one seed, all but 0 itself."""
    # Rounding may leave equal differences a tiny spread.
    return np.isfinite(mean) & (np.abs(mean) > np.where(np.isfinite(half), half, 0.0) + 1e-12)


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
    tied: Bools  # in the order and not the best, but not significantly different from it

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
    tied = np.zeros(len(mean), dtype=bool)
    tied[order[1:]] = ~differs(difference, half)[order[1:]]
    return Ranking(order, difference, half, tied)


class Front(NamedTuple):
    """The rows of the Pareto front, by the second metric, the most first; and which settings are dominated."""

    rows: Ints
    dominated: Bools


def front(less: Floats, more: Floats) -> Front:
    """Find the Pareto front of the means of two metrics, (settings, seeds): less of the first and more of the second.

    A setting is dominated by one that is as good in both means, and better in one beyond a tie.
    """
    (a, _), (b, _) = interval(less), interval(more)
    known = np.isfinite(a) & np.isfinite(b)
    beaten, dominated = np.zeros((2, len(a)), dtype=bool)
    for row in np.flatnonzero(known):
        as_good = known & (a <= a[row]) & (b >= b[row]) & ((a < a[row]) | (b > b[row]))
        beaten[row] = as_good.any()
        significant = differs(*interval(less - less[row])) | differs(*interval(more - more[row]))
        dominated[row] = (as_good & significant).any()
    rows = np.flatnonzero(known & ~beaten)
    return Front(rows[np.lexsort((a[rows], -b[rows]))], dominated)


def effect(values: Floats, pairs: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return by how much a metric, (settings, seeds), differs between pairs of settings, and half of the interval.

    The differences of all pairs (from, to) are averaged within each seed, and the interval is over the seeds that have
    all of them. NaN without any.
    """
    if not pairs:
        return np.nan, np.nan
    start, end = np.array(pairs).T
    mean, half = interval((values[end] - values[start]).mean(axis=0)[None])
    return float(mean[0]), float(half[0])


def ellipse(x: Floats, y: Floats) -> Floats | None:
    """Return the outline (points, 2) of the 95 % confidence region of a mean (x, y) over seeds; None with under three.

    Hotelling's: the points m for which (m - mean) S^-1 (m - mean)' is at most 2 (n - 1) / (n (n - 2)) F(2, n - 2), with
    S the covariance of n seeds and F the 95 % quantile. Where S is singular, it is a line or a point.
    """
    known = np.isfinite(x) & np.isfinite(y)
    number = int(known.sum())
    if number < 3:
        return None
    both = np.stack([x[known], y[known]])
    radius = np.sqrt(2 * (number - 1) / (number * (number - 2)) * fdtri(2, number - 2, CONFIDENCE))
    size, axes = np.linalg.eigh(np.cov(both))
    turn = np.linspace(0, 2 * np.pi, OUTLINE)
    unit = np.stack([np.cos(turn), np.sin(turn)])
    found: Floats = both.mean(axis=1) + radius * (axes @ (np.sqrt(np.maximum(size, 0))[:, None] * unit)).T
    return found
