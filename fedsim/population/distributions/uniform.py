"""Uniform between two values, or among the whole numbers between them."""

import numpy as np

from fedsim.population.distributions.distribution import Distribution, Floats


class Uniform(Distribution):
    """low + (high - low) p."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def quantile(self, p: Floats) -> Floats:
        """Straight from the one to the other."""
        return self.low + (self.high - self.low) * p


class WholeUniform(Distribution):
    """low + floor((high - low + 1) p): `high` is as likely as all others."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def quantile(self, p: Floats) -> Floats:
        """In equal steps from the one to the other."""
        return self.low + np.floor((self.high - self.low + 1) * p)
