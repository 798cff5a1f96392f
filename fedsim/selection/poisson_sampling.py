"""Conditional Poisson sampling: inclusion probabilities of a fixed-size sample, for any number of units.

A sample of n out of N units has *conditional Poisson* law when its probability is proportional to the product
of its units' weights: independent draws with odds x p_i, conditioned on exactly n successes, whatever x is.
With q_i = x p_i / (1 + x p_i) and K the number of successes (a Poisson-binomial variable),

    c_i = P(i in sample) = q_i P(K - 1_i = n - 1) / P(K = n).

Choosing x so that E K = n puts n at the mode of K. Both probabilities are then inverted from the
characteristic function by the trapezoidal rule on m equispaced nodes of the circle, which aliases only the
mass at distance m or more from n (Bernstein's inequality makes it negligible), and drops the nodes where that
function is negligible.

For most units the factor 1 - q_i + q_i exp(i theta) is close to 1 (or to exp(i theta)) at every node that is
kept, so its logarithm and its reciprocal are short power series. The sum over those units needs only the
power sums of q_i, and the leave-one-out probability of each is a polynomial in q_i: O(N) operations in all,
with a constant near ten.

References: Chen, Dempster and Liu, *Weighted finite population sampling to maximize entropy*, Biometrika 81
(1994); Hong, *On computing the distribution function for the Poisson binomial distribution*, CSDA 59 (2013).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats

_BLOCK = 1 << 15  # units handled at once: their temporaries stay in the cache
_EXPONENT = 45.0  # what is neglected is of order exp(-45), about 3e-20
_SERIES = 0.1  # a factor is expanded when it differs from 1 by at most this
_CONCENTRATED = 1e-2  # variance of K below which K = n is almost certain, and expanded around that


def inclusion(weights: Floats, size: int) -> tuple[Floats, float]:
    """Return the inclusion probabilities of conditional Poisson sampling of n = `size` units, from 1 to N.

    Weights, (N,), lie between 1e-300 and 1. The probabilities, (N,), lie in (0, 1] and have the sum n. Returned with
    them is the relative deviation of their sum from n before it was scaled away, which measures the rounding error.
    """
    if size == weights.size:
        return np.ones_like(weights), 0.0
    scale, variance = tilt(weights, size)
    certain = variance < _CONCENTRATED
    c = _near_certain(weights, scale) if certain else _inverted(weights, size, scale, variance)
    total = float(c.sum()) / size
    c /= total
    np.minimum(c, 1.0, out=c)
    return c, abs(total - 1.0)


def tilt(weights: Floats, size: int) -> tuple[float, float]:
    """Find the scale x of the odds x p_i at which n successes are expected, by Newton's method inside a bracket.

    Returned with it is the variance of the number of successes. The law of the sample does not depend on x, so nothing
    is lost by stopping at a fraction of a standard deviation.
    """
    count = weights.size
    low = float(np.log(size / weights.sum()))  # q_i <= x p_i
    high = float(np.log((1.0 / weights).sum() / (count - size)))  # 1 - q_i <= 1 / (x p_i)
    point = low
    while True:
        excess, variance = _moments(weights, size, float(np.exp(point)))
        if abs(excess) <= 1e-6 * min(variance, 1.0) or high - low <= 1e-15 * max(1.0, abs(low), abs(high)):
            return float(np.exp(point)), variance
        low, high = (point, high) if excess < 0.0 else (low, point)
        step = point - excess / variance if variance > 0.0 else high
        point = step if low < step < high else (low + high) / 2.0


def _moments(weights: Floats, size: int, scale: float) -> tuple[float, float]:
    """E K - n and the variance of K, without cancellation where all q_i are close to 0 or 1."""
    excess = variance = 0.0
    likely = 0
    for block in _blocks(weights):
        odds = block * scale
        out = 1.0 / (1.0 + odds)
        q = odds * out
        variance += float((q * out).sum())
        above = odds > 1.0
        likely += int(np.count_nonzero(above))
        excess += float(np.where(above, -out, q).sum())
    return excess + (likely - size), variance


def _blocks(values: Floats) -> Iterator[Floats]:
    return (values[start : start + _BLOCK] for start in range(0, values.size, _BLOCK))


def _near_certain(weights: Floats, scale: float) -> Floats:
    """Expand around the one sample that is almost certain: exchange up to 3 of its members for outsiders.

    With o the odds of the outsiders, u the inverse odds of the members and e_k, E_k their elementary
    symmetric polynomials, P(K = n) ~ sum_k e_k E_k, and outsider i is in with probability ~ o_i sum_k
    e_k(without i) E_{k+1}. Every sum is dominated by its first term, so nothing cancels.
    """
    odds = weights * scale
    members = odds > 1.0
    joining, leaving = odds[~members], 1.0 / odds[members]
    e, E = _symmetric(joining), _symmetric(leaving)
    total = sum(a * b for a, b in zip(e, E, strict=True))
    c = np.empty_like(weights)
    c[~members] = joining * _without_one(joining, e, E) / total
    c[members] = 1.0 - leaving * _without_one(leaving, E, e) / total
    return c


def _symmetric(values: Floats) -> list[float]:
    """Elementary symmetric polynomials of degree 0 to 4, by Newton's identities."""
    sums = [float((values**power).sum()) for power in range(1, 5)]
    e = [1.0]
    for k in range(1, 5):
        e.append(sum((-1) ** j * e[k - 1 - j] * sums[j] for j in range(k)) / k)
    return e


def _without_one(values: Floats, e: list[float], other: list[float]) -> Floats:
    """Sum over k of e_k (without each unit in turn) times the other side's polynomial of degree k + 1."""
    without = np.ones_like(values)
    total = without * other[1]
    for k in range(1, 4):
        without = e[k] - values * without
        total += without * other[k + 1]
    return total


def _inverted(weights: Floats, size: int, scale: float, variance: float) -> Floats:
    """Invert the characteristic function of K, and of K without each unit in turn."""
    theta, share = _nodes(weights.size, variance)
    w = -2.0 * np.sin(theta / 2.0) ** 2 + 1j * np.sin(theta)  # exp(i theta) - 1
    reach = float(np.abs(w).max())
    terms = max(2, int(np.ceil(_EXPONENT / -np.log(min(_SERIES, reach / 2.0)))))

    phase = np.zeros_like(w)  # logarithm of E exp(i theta (K - n))
    product = np.ones_like(w)
    certain = -size
    for block in _blocks(weights):
        q, out, rare, frequent, other = _sorted_by_size(block, scale, reach)
        phase += _log_factors(q[rare], w, terms) + _log_factors(out[frequent], w.conj(), terms)
        certain += int(np.count_nonzero(frequent))
        if other.any():
            product *= (1.0 + np.multiply.outer(q[other], w)).prod(axis=0)
    psi = product * np.exp(phase + 1j * theta * certain) * share
    at_size = float(psi.real.sum())

    shifted = psi * np.exp(1j * theta)
    for_rare = _coefficients(shifted, w, terms)
    for_frequent = _coefficients(psi, w.conj(), terms)
    c = np.empty_like(weights)
    for start in range(0, weights.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        q, out, rare, frequent, other = _sorted_by_size(weights[part], scale, reach)
        chance = np.empty_like(q)
        chance[rare] = np.polynomial.polynomial.polyval(q[rare], for_rare)
        chance[frequent] = np.polynomial.polynomial.polyval(out[frequent], for_frequent)
        if other.any():
            chance[other] = (shifted / (1.0 + np.multiply.outer(q[other], w))).real.sum(axis=1)
        c[part] = q * chance / at_size
    return c


def _nodes(count: int, variance: float) -> tuple[Floats, Floats]:
    """Angles in [0, pi) and their shares in the trapezoidal rule; conjugate nodes are folded together.

    Their number m is odd, so that pi, where a factor can vanish, is not among them.
    """
    distance = _EXPONENT / 3.0 + np.sqrt((_EXPONENT / 3.0) ** 2 + 2.0 * _EXPONENT * variance)
    m = min(int(np.ceil(distance)) + 2, count + 1) | 1
    theta = 2.0 * np.pi * np.arange(m // 2 + 1) / m
    share = np.where(theta > 0.0, 2.0, 1.0) / m
    # |E exp(i theta K)| <= exp(-variance (1 - cos theta)), and leaving one unit out takes at most 1/4 away
    kept = (variance - 0.25) * 2.0 * np.sin(theta / 2.0) ** 2 <= _EXPONENT
    return theta[kept], share[kept]


def _sorted_by_size(block: Floats, scale: float, reach: float) -> tuple[Floats, Floats, Bools, Bools, Bools]:
    """q, 1 - q, and which units have q near 0, which near 1, and which neither."""
    odds = block * scale
    out = 1.0 / (1.0 + odds)
    q = odds * out
    limit = min(0.5, _SERIES / reach)
    rare = q <= limit
    frequent = ~rare & (out <= limit)
    return q, out, rare, frequent, ~(rare | frequent)


def _log_factors(values: Floats, w: NDArray[np.complex128], terms: int) -> NDArray[np.complex128]:
    """Sum over the units of log(1 + value w), from the power sums of the values."""
    total = np.zeros_like(w)
    if not values.size:
        return total
    power = values.copy()
    w_power = w.copy()
    for k in range(1, terms + 1):
        total += w_power * (float(power.sum()) / (k if k % 2 else -k))
        power *= values
        w_power *= w
    return total


def _coefficients(psi: NDArray[np.complex128], w: NDArray[np.complex128], terms: int) -> Floats:
    """Coefficients, as a polynomial in value, of the inversion of psi / (1 + value w)."""
    powers = np.vander(-w, terms, increasing=True)
    return np.asarray((psi @ powers).real, dtype=np.float64)
