"""Laws with a mean and a known equilibrium law, which lengths of time and intervals on and off may have."""

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.population.distributions.distribution import Distribution, Scale, Spread


@dataclass(frozen=True)
class Exponential(Distribution):
    """Exponential: -mean log(1 - p), without memory, so that what is left of a length is as a whole one."""

    uses = ("client_time", "time", "interval")

    mean: Scale = field()  # not the inherited one
    """Mean length."""

    def quantile(self, p: Floats) -> Floats:
        return self.mean * -np.log1p(-p)

    def draw(self, u: Floats) -> Floats:
        return self.mean * -np.log(u)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        return self.draw(u)


@dataclass(frozen=True)
class Weibull(Distribution):
    """Weibull: below shape 1 many short lengths and a few long ones, above 1 lengths close to the mean.

    scale (-log(1 - p))^(1 / shape), where mean = scale Gamma(1 + 1 / shape).
    """

    uses = ("interval",)

    mean: Scale = field()  # not the inherited one
    """Mean length."""
    shape: Annotated[float, Field(ge=0.1, le=100)]
    """1 is the exponential law."""

    @property
    def scale(self) -> float:
        """The value that is exceeded with probability 1 / e."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def quantile(self, p: Floats) -> Floats:
        return self.scale * (-np.log1p(-p)) ** (1 / self.shape)

    def draw(self, u: Floats) -> Floats:
        return self.scale * (-np.log(u)) ** (1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: the regularised lower incomplete gamma function of order 1 / shape."""
        order = 1 / self.shape
        from scipy.special import gammaincinv  # takes long to import

        return np.asarray(self.scale * gammaincinv(order, u) ** order, dtype=np.float64)


@dataclass(frozen=True)
class Lognormal(Distribution):
    """exp(Normal(log(median), sigma)): median exp(sigma z), z the p-quantile of the normal law."""

    median: Scale = 1.0
    """Half of the values lie below."""
    sigma: Spread = field(kw_only=True)
    """Standard deviation of the logarithm."""

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def quantile(self, p: Floats) -> Floats:
        from scipy.special import ndtri  # takes long to import

        return self.of_scores(ndtri(p))

    def of_scores(self, z: Floats) -> Floats:
        return np.asarray(self.median * np.exp(self.sigma * z), dtype=np.float64)

    def remaining(self, u: Floats, v: Floats) -> Floats:
        """Drawn in proportion to itself, it is lognormal with its median times exp(sigma^2); the part v is left."""
        from scipy.special import ndtri  # takes long to import

        return np.asarray(v * self.median * np.exp(self.sigma**2 + self.sigma * ndtri(u)), dtype=np.float64)


class Pareto(Distribution):
    """minimum * U ** (-1 / shape): a power law; the chance to exceed x falls as x ** -shape."""

    uses: ClassVar[tuple[str, ...]] = ("number", "rounds", "client_time")

    shape: float
    """How fast the tail falls; up to 1 the mean is infinite."""
    minimum: float
    """Least possible value."""

    def __init__(self, shape: Annotated[float, Field(gt=0, le=100)], minimum: Scale = 1.0) -> None:
        self.shape, self.minimum = shape, minimum
        self.mean = minimum * shape / (shape - 1) if shape > 1 else math.inf

    def quantile(self, p: Floats) -> Floats:
        return self.minimum * (1.0 - p) ** (-1.0 / self.shape)

    def draw(self, u: Floats) -> Floats:
        return self.minimum * u ** (-1 / self.shape)

    def remaining(self, u: Floats, v: Floats) -> Floats:  # noqa: ARG002
        """Invert the equilibrium law: x / mean up to the minimum, 1 - (x / minimum)^(1 - shape) / shape beyond."""
        with np.errstate(over="ignore"):
            beyond = self.minimum * (self.shape * u) ** (-1 / (self.shape - 1))
        return np.where(u > 1 / self.shape, self.mean * (1 - u), beyond)


class MeanPareto(Pareto):
    """Pareto: a least length and a heavy tail; the chance to exceed x falls as x ** -shape."""

    kind = "pareto"
    uses = ("interval",)

    mean: float
    """Mean length; the least is mean * (shape - 1) / shape."""
    shape: float
    """How fast the tail falls; up to 1 the mean would be infinite, up to 2 the variance is."""

    def __init__(self, mean: Scale, shape: Annotated[float, Field(gt=1, le=100)]) -> None:
        super().__init__(shape, mean * (shape - 1) / shape)
        self.mean = mean
