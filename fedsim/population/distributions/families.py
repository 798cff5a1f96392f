"""The laws: of weights, speeds and whole numbers, then those with a mean, which intervals on and off may have."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.common.later import special
from fedsim.common.registry import Findings
from fedsim.population.distributions.distribution import Distribution, Largest, Scale, Spread, Stages, Value


@dataclass(frozen=True)
class Constant(Distribution):
    """The same for every client of the group, or every time."""

    fixed = True
    uses = ("number", "rounds", "client_time", "time", "rate")

    value: Value
    """What it is."""

    def quantile(self, p: Floats) -> Floats:
        return np.full(p.shape, float(self.value))


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform between low and high: low + (high - low) p."""

    uses: ClassVar[tuple[str, ...]] = ("number", "client_time", "rate")

    low: Value
    """Least possible value."""
    high: Value
    """Largest possible value."""

    @staticmethod
    def check_options(options: Mapping[str, Any], unit: str = "") -> Findings:
        """Return what is wrong if they are not in order."""
        low, high = options["low"], options["high"]
        return [((), f"low is {low:.12g}{unit}, above high, {high:.12g}{unit}")] if low > high else []

    def quantile(self, p: Floats) -> Floats:
        return self.low + (self.high - self.low) * p


@dataclass(frozen=True)
class WholeUniform(Uniform):
    """A whole number between low and high, both included, all equally likely: low + floor((high - low + 1) p)."""

    kind = "uniform"
    uses = ("rounds",)

    def quantile(self, p: Floats) -> Floats:
        return self.low + np.floor((self.high - self.low + 1) * p)


@dataclass(frozen=True)
class RollOut(Distribution):
    """A roll-out: by each of some times a share of the devices, which grows evenly in between."""

    uses = ("client_time",)

    times: Stages
    """Instants after the beginning, in order; the same one twice is a step."""
    shares: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(max_length=100, strict=False)]
    """The share that has it by each of the times; the last is 1."""

    @staticmethod
    def check_options(options: Mapping[str, Any], unit: str = "") -> Findings:  # noqa: ARG004
        """Return what is wrong with the curve."""
        wrong = []
        if len(options["times"]) != len(options["shares"]):
            wrong.append("times and shares differ in length: give one share for each time")
        if options["shares"][-1:] != (1.0,):
            wrong.append("shares must end with 1: give who never joins a group, or part of a mixture, that joins late")
        falling = [name for name in ("times", "shares") if list(options[name]) != sorted(options[name])]
        return [((), message) for message in [*wrong, *(f"{name} must not fall" for name in falling)]]

    def quantile(self, p: Floats) -> Floats:
        return np.interp(p, self.shares, self.times)


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Shares of one Dirichlet draw over the clients of the group, each with this concentration.

    Independent Gamma(concentration) variables, divided by their sum, are such a draw; these are their quantiles.
    """

    of_a_group = True
    uses = ("number",)

    concentration: Annotated[float, Field(ge=0.01, le=1e6)]
    """Small: few clients have nearly all; large: nearly even."""

    def quantile(self, p: Floats) -> Floats:
        """Return those above the median from the upper tail, where the lower one is near 1 and has lost its digits."""
        shape = self.concentration
        values = np.where(p < 0.5, special.gammaincinv(shape, p), special.gammainccinv(shape, 1.0 - p))
        return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Zipf(Distribution):
    """rank ** -exponent for the clients of the group in order: the paper's long tail."""

    ranked = True
    of_a_group = True
    uses: ClassVar[tuple[str, ...]] = ("number",)

    count: int
    exponent: Annotated[float, Field(ge=0, le=50)]
    """How steep the tail is; 0 makes all equal."""
    per_rank: Annotated[int, Field(ge=1)] = 1
    """Consecutive clients that share a rank, such as the members of one selection group."""

    def quantile(self, p: Floats) -> Floats:
        """Return that of the rank of which the part 1 - p of all lies above; ranks are 1, 2, ... from the top."""
        ranks = 1.0 + np.floor((1.0 - p) * self.count).astype(np.int64) // self.per_rank
        return np.asarray(ranks**-self.exponent)


@dataclass(frozen=True)
class LargestZipf(Zipf):
    """largest * rank ** -exponent for the clients of the group in order."""

    kind = "zipf"
    uses = ("rounds", "client_time")

    largest: Largest = field(kw_only=True)
    """That of the first rank."""

    def quantile(self, p: Floats) -> Floats:
        return np.asarray(self.largest * super().quantile(p))


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

    uses = ("client_time", "time", "interval")

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
        return np.asarray(self.scale * special.gammaincinv(order, u) ** order, dtype=np.float64)


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
        return self.of_scores(special.ndtri(p))

    def of_scores(self, z: Floats) -> Floats:
        return np.asarray(self.median * np.exp(self.sigma * z), dtype=np.float64)

    def remaining(self, u: Floats, v: Floats) -> Floats:
        """Drawn in proportion to itself, it is lognormal with its median times exp(sigma^2); the part v is left."""
        return np.asarray(v * self.median * np.exp(self.sigma**2 + self.sigma * special.ndtri(u)), dtype=np.float64)


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
    uses = ("time", "interval")

    mean: float
    """Mean length; the least is mean * (shape - 1) / shape."""
    shape: float
    """How fast the tail falls; up to 1 the mean would be infinite, up to 2 the variance is."""

    def __init__(self, mean: Scale, shape: Annotated[float, Field(gt=1, le=100)]) -> None:
        super().__init__(shape, mean * (shape - 1) / shape)
        self.mean = mean
