"""Sensitivity of a matrix mechanism under (n, b, k)-participation, and the error of the sums that it releases.

C is lower-triangular and Toeplitz, with first column c_0, c_1, ..., c_{n-1}. One client may contribute, in each round
in which it takes part, a row of norm 1 at most (the clip norm is taken out). Where c_0 >= c_1 >= ... >= 0 it is worst
to take part as early and as often as allowed::

    sens^2 = || sum_{j < k'} C e_{jb} ||^2,    k' = min(k, ceil(n / b))

The prefix sums are A G with A = B C the lower triangle of ones; what is released is A G + B Z. Row t of B holds the
running sums g_0, ..., g_t of the coefficients of 1 / c(x), so its norm grows with t. Power series are arrays of
coefficients, with products and inverses by FFT, in O(n log n).

Source: Kalinin and Lampert, *Banded Square Root Matrix Factorization for Differentially Private Model Training*, 2024,
arXiv:2405.13763, Theorem 2.
"""

import math
from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.later import fft
from fedsim.privacy.bounds import ParticipationBounds


def sensitivity(coefficients: Floats, bounds: ParticipationBounds) -> float:
    """Return the largest change of C G in the Frobenius norm that one client can make, by its own b and k.

    Raises a `ValueError` if the coefficients c_0, c_1, ..., shape (m,), zeros after that, are not finite, or more than
    n, or the formula does not hold for them: they neither fall from c_0 >= c_1 >= ... to 0 nor end within b rounds, and
    a client may take part twice.
    """
    c = np.asarray(coefficients, dtype=np.float64)
    if c.ndim != 1 or not 1 <= len(c) <= bounds.rounds:
        raise ValueError(f"a mechanism for {bounds.rounds} rounds has 1 to {bounds.rounds} coefficients, not {c.shape}")
    if not np.isfinite(c).all():
        raise ValueError("a coefficient of the mechanism is not finite")
    bands = int(np.flatnonzero(c).max(initial=-1)) + 1
    if bounds.participations > 1 and bands > bounds.min_separation and (c[-1] < 0 or (np.diff(c) > 0).any()):
        raise ValueError(
            "the coefficients of the mechanism must not be negative, nor rise, where they reach further than "
            f"b = {bounds.min_separation} rounds: the worst pattern of participation is not known for others"
        )
    return math.sqrt(max(float(np.square(worst_response(c, each)).sum()) for each in bounds.of_clients))


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


class Error(NamedTuple):
    """The largest norm of the rows of B, and their root mean square over the rounds.

    They are standard deviations of a released sum, per coordinate, if those of Z are 1.
    """

    max: float
    rms: float


def error(coefficients: Floats, rounds: int) -> Error:
    """Return the error of a C with first column c_0, c_1, ..., shape (m,), zeros after that, over n rounds."""
    squares = np.square(np.cumsum(inverse(coefficients, rounds)))
    rows = np.cumsum(squares)
    return Error(float(np.sqrt(rows[-1])), float(np.sqrt(rows.mean())))


def product(a: Floats, b: Floats, terms: int) -> Floats:
    """Return the first `terms` coefficients of a(x) b(x)."""
    a, b = a[:terms], b[:terms]
    size = fft.next_fast_len(len(a) + len(b) - 1, real=True)
    series = np.asarray(fft.irfft(fft.rfft(a, size) * fft.rfft(b, size), size))[: len(a) + len(b) - 1]
    return np.concatenate([series, np.zeros(max(0, terms - len(series)))])[:terms]


def inverse(coefficients: Floats, terms: int) -> Floats:
    """Return the first `terms` coefficients of 1 / c(x), by Newton's iteration h <- h (2 - c h).

    Every step doubles the number of coefficients that are right. Raises a `ZeroDivisionError` if c_0 is 0.
    """
    if coefficients[0] == 0.0:
        raise ZeroDivisionError("a series that begins with 0 has no inverse")
    h = np.array([1.0 / coefficients[0]])
    while len(h) < terms:
        size = min(terms, 2 * len(h))
        error = -product(coefficients[:size], h, size)
        error[0] += 2.0
        h = product(h, error, size)
    return h[:terms]


def correlation(a: Floats, b: Floats) -> Floats:
    """Return sum over j of a_j b_{j - m} for m = 0, ..., n - 1, where both have shape (n,)."""
    return product(a[::-1], b, len(a))[::-1]
