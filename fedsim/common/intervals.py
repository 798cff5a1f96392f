"""Confidence intervals of means by Student's t, and the laws behind them: importing scipy's outlasts a small run."""

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats

NORMAL = 1.959964  # standard errors in half of a 95 % interval by the normal law
normal_below = np.vectorize(NormalDist().cdf, otypes=[float])
normal_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def student_quantile(n: ArrayLike, confidence: ArrayLike = 0.95) -> Floats:
    """Return half of the two-sided interval of a mean of `n` values in standard errors: t with n - 1 degrees."""
    half = np.subtract(n, 1) / 2
    logit = np.where(
        half > 0, beta_logit(np.maximum(half, 0.5), np.maximum(half, 0.5), np.add(1, confidence) / 2), np.nan
    )
    return np.asarray(np.sqrt(2 * half) * np.sinh(logit / 2))


def student_below(t: ArrayLike, degrees: Floats) -> Floats:
    """Return the probability that Student's t is no more."""
    return np.asarray(beta_below(degrees / 2, degrees / 2, 2 * np.arcsinh(np.divide(t, np.sqrt(degrees)))))


def spans_of(values: Floats, at: Floats, cycles: int = 0, number: int = 20) -> Floats | None:
    """Return the means of values in spans of equal length, in order, without what they repeat in each cycle.

    `at`, in [0, 1), is where each value stands in a window of so many whole `cycles`, such as days; spans of these
    that do not have values in all of them are left out. None if there are fewer values than spans, or none is left.
    """
    parts = max(1, number // max(cycles, 1)) * max(cycles, 1)
    place = (at * parts if cycles else np.arange(len(values)) * parts / max(len(values), 1)).astype(np.int64)
    many = np.bincount(place, minlength=parts)
    if len(values) < parts or (cycles < 2 and not many.all()):
        return None
    means = np.bincount(place, values, parts) / np.maximum(many, 1)
    if cycles < 2:
        return np.asarray(means)
    folded = means.reshape(cycles, -1)[:, many.reshape(cycles, -1).all(axis=0)]
    if not folded.size:
        return None
    # What is taken off is the mean of the cycles themselves, which makes them look more alike.
    return np.asarray(means.mean() + ((folded - folded.mean(axis=0)) * math.sqrt(cycles / (cycles - 1))).ravel())


def independent(values: Floats) -> Floats:
    """Return how many independent values know as much of the mean of each row of values, (rows, values), in order.

    Neighbours have the correlation r of a first-order autoregression, corrected for its bias of (1 + 3 r) / n, so that
    n values know as much as n (1 - r) / (1 + r).
    """
    number, away = values.shape[1], values - values.mean(axis=1, keepdims=True)
    r = (away[:, 1:] * away[:, :-1]).sum(axis=1) / np.maximum(np.square(away).sum(axis=1), 1e-300)
    r = np.clip(r + (1.0 + 3.0 * r) / number, 0.0, 1.0 - 1.0 / number)
    return np.asarray(number * (1.0 - r) / (1.0 + r))


def half_width(standard_error: float, n: int) -> float:
    """Return half of the 95 % interval of a mean of `n` values, such as batch means, from its standard error."""
    return float(student_quantile(n) * standard_error)


def bisected(too_low: Callable[[float], bool], low: float, high: float, within: float = 0.0) -> float:
    """Return the least number that is not too low, by default to the last bit; `low` is too low, and `high` is not."""
    while low < (middle := 0.5 * (low + high)) < high and high - low > within:
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return high


@lru_cache(maxsize=64)
def _beta(a: float, b: float) -> tuple[Floats, Floats]:
    """Return logits of x, and the probabilities of no more than each: sums of the density, by Euler and Maclaurin."""
    far = 8 * math.sqrt((a + b) / a / b)
    logits = math.log(a / b) + np.linspace(-far - 30 / a, far + 30 / b, 16_001)
    logarithms = -a * np.logaddexp(0, -logits) - b * np.logaddexp(0, logits)
    density = np.exp(logarithms - logarithms.max())
    return logits, (np.cumsum(density) - density / 2 - np.gradient(density) / 12) / density.sum()


def _cubic(at: float, x: Floats, y: Floats) -> float:
    """Interpolate between the four points around a place; those at the ends stand for what is beyond."""
    at = min(max(at, x[1]), x[-2])
    first = min(max(int(np.searchsorted(x, at)), 2), len(x) - 2) - 2
    near = x[first : first + 4].tolist()
    if len(set(near)) < len(near):
        return math.nan
    factors = [math.prod((at - each) / (point - each) for each in near if each != point) for point in near]
    return float(sum(value * factor for value, factor in zip(y[first : first + 4].tolist(), factors, strict=True)))


beta_below = np.vectorize(lambda a, b, logit: _cubic(logit, *_beta(a, b)), otypes=[float])
"""The probability that x of the law Beta(a, b) is no more than the number with a logit."""
beta_logit = np.vectorize(
    # The page of a sweep with 2,000 points asks 130,000 times for the same few: five sixths of its time.
    lru_cache(maxsize=1024)(lambda a, b, share: _cubic(share, *_beta(a, b)[::-1])),
    otypes=[float],
)
"""The logit of the number that x of the law Beta(a, b) is no more than with a probability."""
