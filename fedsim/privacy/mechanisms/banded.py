"""Banded: the first coefficients of C, as many as a separation keeps apart, optimized for the error.

With at most b bands the columns that one client reaches do not overlap, so that what it can change is a sum over its
participations. The noise is made row by row by back-substitution, with a memory of the last rows::

    x_t = (z_t - c_1 x_{t-1} - ... - c_{m-1} x_{t-m+1}) / c_0

References
----------
Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu, *(Amplified) Banded Matrix Factorization: A unified
approach to private training*, NeurIPS 2023, arXiv:2306.08153. Toeplitz: McKenna, *Scaling up the Banded Matrix
Factorization Mechanism for Differentially Private ML*, 2024, arXiv:2405.15913.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import Rows
from fedsim.privacy.mechanisms.sqrt import square_root
from fedsim.privacy.optimized import Objective, kept, minimized, objective_of


@dataclass(frozen=True)
class Banded:
    """A Toeplitz C with a few bands.

    Parameters
    ----------
    bands
        How many coefficients there are; b, where it is not given, and never more.
    objective
        The error that is made small: its ``rms`` over the rounds, or its ``max``.
    """

    bands: Annotated[int, Field(ge=1)] | None = None
    objective: Objective = "rms"

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        """Return the bands."""
        bands = min(bounds.min_separation, bounds.rounds, self.bands or bounds.rounds)
        if bands == 1:
            return np.ones(1)
        question = ("banded", bands, self.objective, bounds.rounds, bounds.min_separation, bounds.participations)
        return kept(question, lambda: self._optimized(bands, bounds))

    def _optimized(self, bands: int, bounds: ParticipationBounds) -> Floats:
        def loss(tail: Floats) -> tuple[float, Floats]:
            value, slope = objective_of(np.concatenate([np.ones(1), tail]), bounds, self.objective)
            return value, slope[1:]

        found = minimized(loss, square_root(bands)[1:], [(0.0, 1.0)] * (bands - 1), steps=500)
        return np.concatenate([np.ones(1), found.x])

    def kept(self, bounds: ParticipationBounds) -> int:
        """Return how many rows are kept: one fewer than there are bands."""
        return len(self.coefficients(bounds)) - 1

    def correlate(self, rows: Rows, bounds: ParticipationBounds) -> Rows:
        """Yield the rows of C^{-1} Z, with a memory of as many rows as there are bands."""
        c = self.coefficients(bounds)
        later = c[1:]
        last: Floats | None = None  # the last rows, newest first from `start` on, as a ring
        start = 0
        for row in rows:
            if last is None:
                last = np.zeros((len(later), len(row)))
            made = np.asarray((row - np.roll(later, start) @ last) / c[0])
            if len(later):
                start = (start - 1) % len(later)
                last[start] = made
            yield made
