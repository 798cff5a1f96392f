"""The noise of a mechanism as it streams: rows of C^{-1} Z, one for each round, never an n x n matrix."""

from collections.abc import Callable, Iterator

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import Mechanism, Rows
from fedsim.privacy.series import inverse, product

_BLOCK = 64  # rows whose past is summed up together


def correlated(mechanism: Mechanism, rows: Rows, bounds: ParticipationBounds) -> Rows:
    """Yield the rows of C^{-1} Z.

    Parameters
    ----------
    mechanism
        C.
    rows
        Those of Z, each of shape (d,); at most n.
    bounds
        What the mechanism is made for.

    Notes
    -----
    A mechanism's own ``correlate`` needs little memory. Without one (``sqrt``, and what has none of its own) all rows
    of Z are kept, and the sum over the past is taken in blocks of rows, by FFT.
    """
    own: Callable[[Rows, ParticipationBounds], Rows] | None = getattr(mechanism, "correlate", None)
    return convolved(inverse(mechanism.coefficients(bounds), bounds.rounds), rows) if own is None else own(rows, bounds)


def rows_kept(mechanism: Mechanism, bounds: ParticipationBounds) -> int:
    """Return how many rows `correlated` keeps: what a mechanism says by its own ``kept``, else all of them."""
    own: Callable[[ParticipationBounds], int] | None = getattr(mechanism, "kept", None)
    return bounds.rounds if own is None else own(bounds)


def convolved(coefficients: Floats, rows: Rows) -> Iterator[Floats]:
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
    """Return what the rows so far add to each row of the block that begins now, (block, d)."""
    if not past:
        return np.zeros((_BLOCK, dimension))
    z, terms = np.array(past), len(past) + _BLOCK
    h = np.zeros(terms)
    h[: min(terms, len(coefficients))] = coefficients[:terms]
    return np.stack([product(h, column, terms)[len(past) :] for column in z.T], axis=1)
