"""Independent noise in every round: C is the identity.

It is the noise of DP-FedAvg without amplification by sampling, since availability, not a coin, decides who takes part.
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
