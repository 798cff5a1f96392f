"""The lognormal law."""

import math

import numpy as np
from scipy.special import ndtri

from fedsim.population.distributions.distribution import Distribution, Floats


class Lognormal(Distribution):
    """median exp(sigma z), z the p-quantile of the normal law."""

    def __init__(self, sigma: float, median: float = 1.0) -> None:
        self.sigma, self.median = sigma, median

    @property
    def mean(self) -> float:
        """As for every lognormal law: median exp(sigma^2 / 2)."""
        return self.median * math.exp(self.sigma**2 / 2)

    def quantile(self, p: Floats) -> Floats:
        """Of the normal law's quantiles."""
        return self.of_scores(ndtri(p))

    def of_scores(self, z: Floats) -> Floats:
        """As told above."""
        return np.asarray(self.median * np.exp(self.sigma * z), dtype=np.float64)

    def remaining(self, u: Floats, v: Floats) -> Floats:
        """Drawn in proportion to itself, it is lognormal with its median times exp(sigma^2); the part v is left."""
        return np.asarray(v * self.median * np.exp(self.sigma**2 + self.sigma * ndtri(u)), dtype=np.float64)
