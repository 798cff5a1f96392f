"""Whether participation differs by more than chance: one verdict for groups, zones, tenths, methods and the whole run.

Several looks at once are corrected after Holm (Scandinavian Journal of Statistics 6, 1979), and each interval is at the
level at which its look was judged, so that it excludes the reference exactly where the difference is significant.
Shares get the interval of Clopper and Pearson with an effective number of draws, corrected for the degrees of freedom
of its estimate (Korn and Graubard, Survey Methodology 24, 1998).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.intervals import (
    beta_below,
    beta_logit,
    normal_below,
    normal_quantile,
    student_below,
    student_quantile,
)

LEVEL = 0.05
"""False alarms of one family of looks."""
POWER = 0.8416
"""Quantile of the normal distribution: four in five."""
_MOST, _LEAST = 1e12, 1e-3  # effective draws
_EXACT = 1_000  # shares that lie farthest off; others are taken to be normal
_LARGE = 1e18


@dataclass(frozen=True)
class Look:
    """One value compared with its reference."""

    value: float
    low: float  # ends of the interval, at the level of this look
    high: float
    significant: bool  # whether it differs from the reference by more than chance: whether the interval excludes that
    visible: float  # the least difference from the reference that is significant four times in five
    level: float  # at which it was judged, with a correction for the other looks
    p: float  # how probable a value at least so far off is by chance


def compare_values(values: Floats, errors: Floats, degrees: Floats) -> tuple[Look, ...]:
    """Compare values that have standard errors, of so many degrees of freedom each, with 0 by Student's t."""
    away = np.abs(values)
    p = np.asarray(2.0 * student_below(-away / np.maximum(errors, 1e-300), degrees))
    levels = holm_levels(p, LEVEL)
    quantile = student_quantile(degrees + 1, 1 - levels)
    half = quantile * errors
    return _looks(values, values - half, values + half, away > half, (quantile + POWER) * errors, levels, p)


def compare_shares(shares: Floats, fair: Floats, draws: Floats, degrees: Floats, level: float) -> tuple[Look, ...]:
    """Compare shares with what is fair; `draws` are the independent draws that know as much, `degrees` of these."""
    strictest = level / max(1, len(shares))
    draws = np.minimum(draws, _MOST)
    draws *= np.square(normal_quantile(strictest / 2) / student_quantile(degrees + 1, 1 - strictest))
    deviation = np.sqrt(fair * (1 - fair) / draws)
    p = 2 * normal_below(-np.abs(shares - fair) / deviation)
    far = np.argsort(p, kind="stable")[:_EXACT]
    hits, failures = (np.clip(each[far], 0.0, 1.0) * draws[far] for each in (shares, 1 - shares))
    least, others, logit = np.maximum(hits, _LEAST), np.maximum(failures, _LEAST), np.log(fair / (1 - fair))[far]
    above, below = beta_below(least, failures + 1, logit), 1 - beta_below(hits + 1, others, logit)
    p[far] = np.minimum(1.0, 2 * np.minimum(above, below))
    levels = holm_levels(p, level)
    quantile = -normal_quantile(levels / 2)
    low, high = np.maximum(shares - quantile * deviation, 0.0), shares + quantile * deviation
    low[far] = np.where(hits > 0, _share(beta_logit(least, failures + 1, levels[far] / 2)), 0.0)
    high[far] = np.where(failures > 0, _share(beta_logit(hits + 1, others, 1 - levels[far] / 2)), 1.0)
    visible = (POWER + quantile) * deviation
    return _looks(shares, low, high, (fair < low) | (fair > high), visible, levels, p)


def _share(logit: Floats) -> Floats:
    return np.asarray((1 + np.tanh(logit / 2)) / 2)


def _looks(*columns: Floats | Bools) -> tuple[Look, ...]:
    rows: Sequence[Sequence[float]] = list(zip(*(column.tolist() for column in columns), strict=True))
    return tuple(Look(value, low, high, bool(significant), *rest) for value, low, high, significant, *rest in rows)


def holm_levels(p: Floats, level: float) -> Floats:
    """Return the level at which each p value is judged, which is significant where it is no larger; NaN where p is NaN.

    It is Holm's: of those after the first that is not significant, the level of that.
    """
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    steps = level / np.arange(len(order), 0, -1)
    failed = np.flatnonzero(p[order] > steps)
    if len(failed):
        steps[failed[0] :] = steps[failed[0]]
    levels = np.full(len(p), np.nan)
    levels[order] = steps
    return levels


def share_variance(spans: Ints) -> Floats:
    """Return the variance of each part's share of all, (parts,), by how its counts differ between spans, (K, parts)."""
    sizes = spans.sum(axis=1, keepdims=True).astype(np.float64)
    taken = max(float(sizes.sum()), 1.0)
    spread = np.square(spans - sizes * (spans.sum(axis=0) / taken)).sum(axis=0)
    return np.asarray(spread * len(spans) / (len(spans) - 1) / taken**2)


def effective_draws(spans: Ints, apart: Floats | None = None) -> Floats:
    """Return how many independent draws know as much of the shares of some parts as their counts by span, (K, parts).

    `apart`, (parts,), are variances of the shares between clients, in which those of the spans are contained as far as
    clients are independent; without them clients are what they are. Of more parts than spans none tells more than all.
    """
    taken = max(float(spans.sum()), 1.0)
    shares, variance = spans.sum(axis=0) / taken, share_variance(spans)
    alone = shares * (1 - shares)
    if apart is not None:
        variance = np.maximum(apart, variance + np.maximum(0.0, apart - alone / taken))
    pooled = alone.sum() / max(float(variance.sum()), 1e-300)
    draws = np.divide(alone, variance, out=np.full(len(shares), pooled), where=(alone > 0) & (variance > 0))
    return np.asarray(np.minimum(draws, min(_MOST, pooled) if len(shares) > len(spans) else _MOST))


def without_replacement(sizes: Ints, clients: int, together: int = 1) -> float:
    """Return the variance of counts over that of independent draws, of cohorts of such sizes that hold a client once.

    `together` is how many of the `clients` are drawn at once.
    """
    units, drawn = clients / together, sizes / together
    return float((drawn * np.maximum(units - drawn, 0)).sum() / (max(units - 1, 1) * max(float(drawn.sum()), 1)))


def evenness(counts: Ints, left: float, together: int = 1) -> tuple[float, float]:
    """Return how probable it is that equal chances spread the counts of clients (N,) at least as far, and no farther.

    `left` is what `without_replacement` returns, and `together` how many are drawn at once. The test is Pearson's.
    """
    units, mean = len(counts) / together, float(counts.mean())
    apart = counts - mean
    square = float(np.square(apart, out=apart).sum()) / mean / together / max(left, 1e-9)
    # Half the square is distributed as Gamma(a), of b x where x is Beta(a, b) and b large.
    narrower = float(beta_below((units - 1) / 2, _LARGE, math.log(max(square, 1e-300) / 2 / _LARGE)))
    return 1 - narrower, narrower
