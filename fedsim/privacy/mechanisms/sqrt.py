"""The square root of A: C = B, and nothing to optimize.

::

    c_0 = 1,    c_j = c_{j-1} (2j - 1) / (2j),        the coefficients of (1 - x)^{-1/2}

References
----------
Henzinger, Upadhyay and Upadhyay, *Almost Tight Error Bounds on Differentially Private Continual Counting*, SODA 2023,
arXiv:2211.05006.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds


@dataclass(frozen=True)
class Sqrt:
    """The square root of the triangle of ones."""

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        return square_root(bounds.rounds)


def square_root(terms: int) -> Floats:
    """Return the first coefficients of (1 - x)^{-1/2}."""
    odd = 2.0 * np.arange(1, terms) - 1.0
    return np.concatenate([np.ones(1), np.cumprod(odd / (odd + 1.0))])
