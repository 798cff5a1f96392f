"""The alternating renewal process, stationary from the first instant.

Draw 0 decides whether the device starts on, with probability mean_on / (mean_on + mean_off); draw k >= 1 decides the
k-th length. The first length is what is left of a running interval (`Distribution.remaining`), so the process looks at
time 0 as it does at any other.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.availability.batch import Clients, Mask
from fedsim.common.arrays import Bools, Floats
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution

FOREVER = 1e13  # 300,000 years: heavy tails may reach further than seconds can be told apart


@dataclass(frozen=True)
class Process:
    """The laws of the lengths on and off."""

    on: Distribution
    off: Distribution

    def starting(self, clients: Clients, draws: Stream) -> tuple[Mask, Floats]:
        """Return whether each device starts on, and how long it stays so."""
        mean_on, mean_off = self.on.mean, self.off.mean
        share = mean_on / (mean_on + mean_off)
        lot = draws.uniforms(clients, 0)
        starts_on = lot < share
        # Given the side on which it fell, the lot is uniform there: a second draw at no cost.
        rest = np.where(starts_on, lot / share, (lot - share) / (1 - share) if share < 1 else 0.0)
        u = draws.uniforms(clients, 1)
        return starts_on, np.where(starts_on, self.on.remaining(u, rest), self.off.remaining(u, rest))

    def lengths(self, on: Bools, u: Floats) -> Floats:
        """Return whole lengths from uniform draws, of the state that each is of."""
        return np.where(on, self.on.draw(u), self.off.draw(u))
