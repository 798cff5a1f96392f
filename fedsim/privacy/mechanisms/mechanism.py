"""What a mechanism is: a lower-triangular Toeplitz matrix C that decides how the noise of the rounds is correlated."""

from collections.abc import Iterator
from typing import Protocol

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds


class Mechanism(Protocol):
    """Correlated noise: in round t the server adds row t of C^{-1} Z, the rows of Z being independent.

    Any class with this method is a mechanism; it need not inherit from this one. A scenario names it as ``mechanism:
    {kind: my_package.my_module:MyMechanism}``, and its constructor is called with the options beside ``kind``.

    A method ``correlate(rows, bounds)`` is optional: it takes an iterator over the rows of Z, each of shape (d,), and
    yields those of C^{-1} Z; ``kept(bounds)`` then says how many rows it keeps. Without one,
    `fedsim.privacy.noise.correlated` does that for any C, and keeps all rows.
    """

    def coefficients(self, bounds: ParticipationBounds, /) -> Floats:
        """Return the first column of C: c_0, c_1, ..., at most n of them; those that are left out are 0.

        They must not rise, nor be negative, unless there are at most b of them.
        """
        ...


Rows = Iterator[Floats]
