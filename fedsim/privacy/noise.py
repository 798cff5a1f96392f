"""The noise of a mechanism as a stream of rows of C^{-1} Z, one for each round, without an n x n matrix."""

from collections.abc import Callable, Iterator

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import Mechanism, NoiseRows
from fedsim.privacy.series import inverse, product

_BLOCK = 64  # rows whose past is summed up together


def correlated_rows(mechanism: Mechanism, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
    """Return the rows of C^{-1} Z, given at most n rows of Z, each of shape (d,).

    A mechanism's own ``correlate`` needs little memory. Without one (as ``sqrt``) all rows of Z are kept, and the sum
    over the past is taken in blocks of rows, by FFT.
    """
    own: Callable[[NoiseRows, ParticipationBounds], NoiseRows] | None = getattr(mechanism, "correlate", None)
    if own is not None:
        return own(rows, bounds)
    return convolved_rows(inverse(mechanism.coefficients(bounds), bounds.rounds), rows)


def rows_kept(mechanism: Mechanism, bounds: ParticipationBounds) -> int:
    """Return how many rows `correlated_rows` keeps: the mechanism's own ``kept``, else all."""
    own: Callable[[ParticipationBounds], int] | None = getattr(mechanism, "kept", None)
    return bounds.rounds if own is None else own(bounds)


def convolved_rows(coefficients: Floats, rows: NoiseRows) -> Iterator[Floats]:
    """Yield sum over j <= t of h_j z_{t-j} for each row z_t, h being the coefficients (n,); O(n d) memory."""
    past: list[Floats] = []
    earlier = np.empty((0, 0))
    for t, row in enumerate(rows):
        begun = t - t % _BLOCK
        if t == begun:
            earlier = _of_the_past(coefficients, past, len(row))
        past.append(row)
        recent = np.array(past[begun:])
        yield earlier[t - begun] + coefficients[: len(recent)][::-1] @ recent


def _of_the_past(coefficients: Floats, past: list[Floats], dimension: int) -> Floats:
    """Return what the past rows add to each row of the next block, (block, d)."""
    if not past:
        return np.zeros((_BLOCK, dimension))
    z, terms = np.array(past), len(past) + _BLOCK
    h = np.zeros(terms)
    h[: min(terms, len(coefficients))] = coefficients[:terms]
    return np.stack([product(h, column, terms)[len(past) :] for column in z.T], axis=1)
