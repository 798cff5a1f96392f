"""What a mechanism is: a lower-triangular Toeplitz matrix C that correlates the noise of the rounds."""

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds

NoiseRows: TypeAlias = Iterator[Floats]


class Mechanism(Protocol):
    """Correlated noise: in round t the server adds row t of C^{-1} Z, with independent rows of Z.

    Any class with this method is a mechanism; it need not inherit from this one. A scenario names it as ``mechanism:
    {kind: my_package.my_module:MyMechanism}``, and its constructor is called with the other options.

    Optional: ``correlate(rows, bounds)`` takes an iterator over the rows of Z, each of shape (d,), and yields those of
    C^{-1} Z, and ``kept(bounds)`` says how many rows it keeps (else `fedsim.privacy.noise.correlated_rows` keeps all
    rows); ``exported(bounds)`` returns, for JSON, what describes C more briefly than its coefficients. A built-in one
    whose noise a cap on participations does not reduce has ``ignores_caps = True``.
    """

    def coefficients(self, bounds: ParticipationBounds, /) -> Floats:
        """Return the first column of C: c_0, c_1, ..., at most n of them; those that are left out are 0.

        They must not rise, nor be negative, unless there are at most b of them.
        """
        ...
