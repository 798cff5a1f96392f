"""Laws with a mean and a known equilibrium law, which lengths of time and intervals on and off may have."""

import math
from dataclasses import dataclass, field

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.population.distributions.distribution import Distribution


@dataclass(frozen=True)
class Exponential(Distribution):
    """-mean log(1 - p): without memory, so that what is left is as a whole length."""

    mean: float = field()  # not the inherited one

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.mean * -np.log1p(-p)

    def draw(self, u: Floats) -> Floats:
        """With u for 1 - p."""
        return self.mean * -np.log(u)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """As `draw`."""
        return self.draw(u)


@dataclass(frozen=True)
class Weibull(Distribution):
    """scale (-log(1 - p))^(1 / shape), where mean = scale Gamma(1 + 1 / shape)."""

    mean: float = field()  # not the inherited one
    shape: float

    @property
    def scale(self) -> float:
        """The value that is exceeded with probability 1 / e."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.scale * (-np.log1p(-p)) ** (1 / self.shape)

    def draw(self, u: Floats) -> Floats:
        """With u for 1 - p."""
        return self.scale * (-np.log(u)) ** (1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: the regularised lower incomplete gamma function of order 1 / shape."""
        order = 1 / self.shape
        from scipy.special import gammaincinv  # takes long to import

        return np.asarray(self.scale * gammaincinv(order, u) ** order, dtype=np.float64)


@dataclass(frozen=True)
class Lognormal(Distribution):
    """median exp(sigma z), z the p-quantile of the normal law."""

    sigma: float
    median: float = 1.0

    @property
    def mean(self) -> float:
        """That of any lognormal law."""
        return self.median * math.exp(self.sigma**2 / 2)

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        from scipy.special import ndtri  # takes long to import

        return self.of_scores(ndtri(p))

    def of_scores(self, z: Floats) -> Floats:
        """As told above."""
        return np.asarray(self.median * np.exp(self.sigma * z), dtype=np.float64)

    def remaining(self, u: Floats, v: Floats) -> Floats:
        """Drawn in proportion to itself, it is lognormal with its median times exp(sigma^2); the part v is left."""
        from scipy.special import ndtri  # takes long to import

        return np.asarray(v * self.median * np.exp(self.sigma**2 + self.sigma * ndtri(u)), dtype=np.float64)


class Pareto(Distribution):
    """minimum (1 - p)^(-1 / shape); the chance to exceed x falls as x^-shape.

    Parameters
    ----------
    shape
        How fast the tail falls; up to 1 the mean is infinite.
    minimum
        The least value.
    mean
        Instead of it: the least value is then mean (shape - 1) / shape.
    """

    def __init__(self, shape: float, minimum: float = 1.0, mean: float | None = None) -> None:
        self.shape = shape
        self.minimum = minimum if mean is None else mean * (shape - 1) / shape
        self.mean = mean if mean is not None else minimum * shape / (shape - 1) if shape > 1 else math.inf

    def quantile(self, p: Floats) -> Floats:
        """As told above."""
        return self.minimum * (1.0 - p) ** (-1.0 / self.shape)

    def draw(self, u: Floats) -> Floats:
        """With u for 1 - p."""
        return self.minimum * u ** (-1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: x / mean up to the minimum, 1 - (x / minimum)^(1 - shape) / shape beyond."""
        with np.errstate(over="ignore"):
            beyond = self.minimum * (self.shape * u) ** (-1 / (self.shape - 1))
        return np.where(u > 1 / self.shape, self.mean * (1 - u), beyond)
