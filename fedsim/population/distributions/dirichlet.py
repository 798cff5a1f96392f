"""Shares of one Dirichlet draw: gamma variables, which sum to 1 when they are normalised."""

import numpy as np
from scipy.special import gammainccinv, gammaincinv

from fedsim.population.distributions.distribution import Distribution, Floats


class Dirichlet(Distribution):
    """Gamma(concentration): n independent ones, divided by their sum, are one Dirichlet draw."""

    def __init__(self, concentration: float) -> None:
        self.concentration = concentration

    def quantile(self, p: Floats) -> Floats:
        """Above the median from the upper tail, where the lower one is near 1 and has lost its digits."""
        shape = self.concentration
        values = np.where(p < 0.5, gammaincinv(shape, p), gammainccinv(shape, 1.0 - p))
        return np.asarray(values, dtype=np.float64)
