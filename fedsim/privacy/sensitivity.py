"""Sensitivity of a matrix mechanism under (n, b, k)-participation.

C is lower-triangular and Toeplitz, with first column c_0, c_1, ..., c_{n-1}. One client may contribute, in each round
in which it takes part, a row of norm 1 at most (the clip norm is taken out). Where c_0 >= c_1 >= ... >= 0 it is worst
to take part as early and as often as allowed::

    sens^2 = || sum_{j < k'} C e_{jb} ||^2,    k' = min(k, ceil(n / b))

References
----------
Kalinin and Lampert, *Banded Square Root Matrix Factorization for Differentially Private Model Training*, 2024,
arXiv:2405.13763, Theorem 2.
"""

import math

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds


def sensitivity(coefficients: Floats, bounds: ParticipationBounds) -> float:
    """Return the largest change of C G in the Frobenius norm that one client can make.

    Parameters
    ----------
    coefficients
        (m,) c_0, c_1, ...; those up to n that are left out are 0.
    bounds
        n, b and k.

    Raises
    ------
    ValueError
        If the coefficients are not finite, there are more than n, or the formula does not hold for them: they neither
        fall from c_0 >= c_1 >= ... to 0 nor end within b rounds, and a client may take part twice.
    """
    c = np.asarray(coefficients, dtype=np.float64)
    if c.ndim != 1 or not 1 <= len(c) <= bounds.rounds:
        raise ValueError(f"a mechanism for {bounds.rounds} rounds has 1 to {bounds.rounds} coefficients, not {c.shape}")
    if not np.isfinite(c).all():
        raise ValueError("a coefficient of the mechanism is not finite")
    if bounds.participations > 1 and bands_of(c) > bounds.min_separation and (c[-1] < 0 or (np.diff(c) > 0).any()):
        raise ValueError(
            "the coefficients of the mechanism must not be negative, nor rise, where they reach further than "
            f"b = {bounds.min_separation} rounds: the worst pattern of participation is not known for others"
        )
    return math.sqrt(float(np.square(worst_response(c, bounds)).sum()))


def bands_of(coefficients: Floats) -> int:
    """Return how many coefficients there are up to the last that is not 0."""
    return int(np.flatnonzero(coefficients).max(initial=-1)) + 1


def worst_response(coefficients: Floats, bounds: ParticipationBounds) -> Floats:
    """Return sum_{j < k'} C e_{jb}, shape (n,)."""
    padded = np.zeros(bounds.rounds)
    padded[: len(coefficients)] = coefficients
    return shifted_sum(padded, bounds)


def shifted_sum(values: Floats, bounds: ParticipationBounds) -> Floats:
    """Return v_t = sum over j < k' of values_{t - jb}, shape (n,), by differences of running sums: O(n)."""
    n, b, k = bounds.rounds, min(bounds.min_separation, bounds.rounds), bounds.participations
    rows = -(-n // b)
    table = np.zeros(rows * b)
    table[:n] = values
    sums = np.cumsum(table.reshape(rows, b), axis=0)
    sums[k:] -= sums[:-k].copy()
    return np.asarray(sums.ravel()[:n])
