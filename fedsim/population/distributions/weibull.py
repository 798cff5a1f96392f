"""The Weibull law: below shape 1 many short lengths and a few long ones, above 1 lengths close to the mean."""

import math

import numpy as np
from scipy.special import gammaincinv

from fedsim.population.distributions.distribution import Distribution, Floats


class Weibull(Distribution):
    """scale (-log(1 - p))^(1 / shape), where mean = scale Gamma(1 + 1 / shape)."""

    def __init__(self, mean: float, shape: float) -> None:
        self._mean, self.shape = mean, shape
        self.scale = mean / math.gamma(1 + 1 / shape)

    @property
    def mean(self) -> float:
        """As given."""
        return self._mean

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.scale * (-np.log1p(-p)) ** (1 / self.shape)

    def draw(self, u: Floats) -> Floats:
        """As told above, with u for 1 - p."""
        return self.scale * (-np.log(u)) ** (1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: the regularised lower incomplete gamma function of order 1 / shape."""
        order = 1 / self.shape
        return np.asarray(self.scale * gammaincinv(order, u) ** order, dtype=np.float64)
