"""Mechanisms with nothing to optimize: independent noise in every round, and the square root of A.

Independent noise, C = I, is that of DP-FedAvg without amplification by sampling, since availability, not a coin,
decides who takes part. The square root has C = B and the coefficients of (1 - x)^{-1/2}::

    c_0 = 1,    c_j = c_{j-1} (2j - 1) / (2j)

Source: Henzinger, Upadhyay and Upadhyay, *Almost Tight Error Bounds on Differentially Private Continual Counting*,
SODA 2023, arXiv:2211.05006.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import NoiseRows


@dataclass(frozen=True)
class Independent:
    """Independent noise; its sensitivity is the square root of how often a client may take part."""

    def coefficients(self, _bounds: ParticipationBounds) -> Floats:
        return np.ones(1)

    def correlate(self, rows: NoiseRows, _bounds: ParticipationBounds) -> NoiseRows:
        return rows

    def kept(self, _bounds: ParticipationBounds) -> int:
        return 0


@dataclass(frozen=True)
class Sqrt:
    """The square root of the triangle of ones."""

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        return square_root(bounds.rounds)


def square_root(terms: int) -> Floats:
    """Return the first coefficients of (1 - x)^{-1/2}."""
    odd = 2.0 * np.arange(1, terms) - 1.0
    return np.concatenate([np.ones(1), np.cumprod(odd / (odd + 1.0))])
