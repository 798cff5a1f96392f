"""Banded: the first coefficients of C, as many as a separation keeps apart, optimized for the error.

With at most b bands the columns that one client reaches do not overlap, so its influence is a sum over its
participations. The noise is made row by row by back-substitution::

    x_t = (z_t - c_1 x_{t-1} - ... - c_{m-1} x_{t-m+1}) / c_0

Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu, *(Amplified) Banded Matrix Factorization: A
unified approach to private training*, NeurIPS 2023, arXiv:2306.08153. Toeplitz: McKenna, *Scaling up the Banded Matrix
Factorization Mechanism for Differentially Private ML*, 2024, arXiv:2405.15913.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.fixed import square_root
from fedsim.privacy.mechanisms.mechanism import NoiseRows
from fedsim.privacy.optimized import Objective, cached, minimize_loss, objective_of


@dataclass(frozen=True)
class Banded:
    """A Toeplitz C with a few bands."""

    ignores_caps: ClassVar[bool] = True

    bands: Annotated[int, Field(ge=1)] | None = None
    """Number of coefficients of C, at most b; by default b."""
    objective: Objective = "rms"
    """Error to minimise: its root mean square over the rounds (`rms`), or its maximum (`max`)."""

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        separations = {bounds.min_separation, max(each.min_separation for each in bounds.of_clients)}
        tried = {min(b, bounds.rounds, self.bands or bounds.rounds) for b in separations}
        series = [self._of(bands, bounds) for bands in sorted(tried)]
        return min(series, key=lambda c: objective_of(c, bounds, self.objective)[0]) if len(series) > 1 else series[0]

    def _of(self, bands: int, bounds: ParticipationBounds) -> Floats:
        if bands == 1:
            return np.ones(1)
        allowed = bounds.min_separation, bounds.participations, *bounds.pairs
        question = (
            "banded" if bands <= bounds.min_separation else "falling",
            bands,
            self.objective,
            bounds.rounds,
            *allowed,
        )
        return cached(question, lambda: self._optimized(bands, bounds))

    def _optimized(self, bands: int, bounds: ParticipationBounds) -> Floats:
        """Search among all coefficients; beyond the least b among those that fall, by the factors between them."""
        falling, start = bands > bounds.min_separation, square_root(bands)

        def meant(free: Floats) -> Floats:
            return np.concatenate([np.ones(1), np.cumprod(free) if falling else free])

        def loss(free: Floats) -> tuple[float, Floats]:
            value, slope = objective_of(c := meant(free), bounds, self.objective)
            by_factor = np.cumsum((slope * c)[:0:-1])[::-1] / free if falling else slope[1:]
            return value, by_factor

        least, first = (1e-6, start[1:] / start[:-1]) if falling else (0.0, start[1:])
        return meant(minimize_loss(loss, first, [(least, 1.0)] * (bands - 1), steps=500).x)

    def kept(self, bounds: ParticipationBounds) -> int:
        return len(self.coefficients(bounds)) - 1

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
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
