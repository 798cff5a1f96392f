"""What a mechanism is: a lower-triangular Toeplitz matrix C that correlates the noise of the rounds.

The noise is a stream of rows of C^{-1} Z, one for each round, without an n x n matrix.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.sensitivity import inverse, product

_BLOCK = 64  # rows whose past is summed up together
_SAME = 1e-6  # by how much rows may differ, over the largest of Z

NoiseRows: TypeAlias = Iterator[Floats]


class Mechanism(Protocol):
    """Correlated noise: in round t the server adds row t of C^{-1} Z, with independent rows of Z.

    Any class with this method is a mechanism; it need not inherit from this one. A scenario names it as ``mechanism:
    {kind: my_package.my_module:MyMechanism}``, and its constructor is called with the other options.

    Optional: ``correlate(rows, bounds)`` takes an iterator over the rows of Z, each of shape (d,), and yields those of
    C^{-1} Z, and ``kept(bounds)`` says how many rows it keeps (else `correlated_rows` keeps all rows);
    ``exported(bounds)`` returns, for JSON, what describes C more briefly than its coefficients. A built-in one whose
    noise a cap on participations does not reduce has ``ignores_caps = True``.
    """

    def coefficients(self, bounds: ParticipationBounds, /) -> Floats:
        """Return the first column of C: c_0, c_1, ..., at most n of them; those that are left out are 0.

        They must not rise, nor be negative, unless there are at most b of them.
        """
        ...


def correlated_rows(mechanism: Mechanism, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
    """Return the rows of C^{-1} Z, given at most n rows of Z, each of shape (d,).

    A mechanism's own ``correlate`` needs little memory. Without one (as ``sqrt``) all rows of Z are kept, and the sum
    over the past is taken in blocks of rows, by FFT.
    """
    correlate: Callable[[NoiseRows, ParticipationBounds], NoiseRows] | None = getattr(mechanism, "correlate", None)
    if correlate is not None:
        return correlate(rows, bounds)
    return convolved_rows(inverse(mechanism.coefficients(bounds), bounds.rounds), rows)


def checked_rows(mechanism: Mechanism, rows: NoiseRows, bounds: ParticipationBounds, direction: Floats) -> NoiseRows:
    """Yield what `correlated_rows` returns, if that is C^{-1} Z along a direction (d,), in which all columns count.

    Raises a `PluginError` that names the first row that is not.
    """
    seen, largest = list[Floats](), 0.0

    def taken() -> NoiseRows:
        for z in rows:
            seen.append(np.array([direction @ z]))
            yield z

    wanted = convolved_rows(inverse(np.asarray(mechanism.coefficients(bounds)), bounds.rounds), iter(seen))
    for t, row in enumerate(correlated_rows(mechanism, taken(), bounds)):
        fits = len(seen) > t and np.shape(row) == direction.shape
        largest = max(largest, abs(float(seen[t][0]))) if fits else largest
        if not (fits and abs(direction @ row - next(wanted)[0]) <= _SAME * largest):
            raise PluginError(f"row {t:,} of its correlate is not that of C^-1 Z that its coefficients promise")
        yield row


def rows_kept(mechanism: Mechanism, bounds: ParticipationBounds) -> int:
    """Return how many rows `correlated_rows` keeps: the mechanism's own ``kept``, else all."""
    kept: Callable[[ParticipationBounds], int] | None = getattr(mechanism, "kept", None)
    return bounds.rounds if kept is None else kept(bounds)


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
