"""Independent noise in every round: C is the identity.

It is what DP-FedAvg adds where nothing is said for its random sampling (amplification), since availability, not a coin,
decides who takes part.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import Rows


@dataclass(frozen=True)
class Independent:
    """Independent noise; its sensitivity is the square root of how often a client may take part."""

    def coefficients(self, _bounds: ParticipationBounds) -> Floats:
        """Return (1,)."""
        return np.ones(1)

    def correlate(self, rows: Rows, _bounds: ParticipationBounds) -> Rows:
        """Yield the rows as they are."""
        return rows

    def kept(self, _bounds: ParticipationBounds) -> int:
        """Return 0: no row is kept."""
        return 0
