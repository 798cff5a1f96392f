"""DP-lambda-CGD: each round takes back a share of the noise of the round before, and of no other.

The noise is z_t - lambda z_{t-1}, so that c_j = lambda^j; all that is kept is one row, which a generator could make
again. Here without the paper's scaling of the columns, which a Toeplitz C does not have.

Source: Kalinin, McKenna, Pagh and Lampert, *DP-lambda-CGD: Efficient Noise Correlation for Differentially Private Model
Training*, 2026, arXiv:2601.22334.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.common.later import optimize
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import NoiseRows
from fedsim.privacy.optimized import Objective, cached, objective_of


@dataclass(frozen=True)
class LambdaCgd:
    """A Toeplitz C of the powers of one number."""

    cancelled: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the last round's noise that is taken back; by default the one with the least error."""
    objective: Objective = "rms"
    """Error to minimise: its root mean square over the rounds (`rms`), or its maximum (`max`)."""

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        return np.asarray(self._share(bounds) ** np.arange(bounds.rounds, dtype=np.float64))

    def _share(self, bounds: ParticipationBounds) -> float:
        if self.cancelled is not None or bounds.rounds == 1:
            return self.cancelled or 0.0
        n, b, k = bounds.rounds, bounds.min_separation, bounds.participations
        return float(cached(("lambda_cgd", self.objective, n, b, k, *bounds.pairs), lambda: self._optimized(bounds))[0])

    def _optimized(self, bounds: ParticipationBounds) -> Floats:
        def loss(logit: float) -> float:
            powers = (1.0 / (1.0 + np.exp(-logit))) ** np.arange(bounds.rounds)
            return objective_of(powers, bounds, self.objective)[0]

        minimum = optimize.minimize_scalar(loss, bounds=(-8.0, 14.0), method="bounded", options={"xatol": 1e-6})
        return np.array([1.0 / (1.0 + np.exp(-minimum.x))])

    def kept(self, _bounds: ParticipationBounds) -> int:
        return 1

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
        share = self._share(bounds)
        before: Floats | None = None
        for row in rows:
            yield row if before is None else row - share * before
            before = row
