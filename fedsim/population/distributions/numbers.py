"""Laws of weights, speeds and whole numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.common.registry import Findings
from fedsim.population.distributions.distribution import Distribution, Largest, Value


@dataclass(frozen=True)
class Constant(Distribution):
    """The same for every client of the group, or every time."""

    fixed = True
    uses = ("number", "rounds", "client_time", "time")

    value: Value
    """What it is."""

    def quantile(self, p: Floats) -> Floats:
        return np.full(p.shape, float(self.value))


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform between low and high: low + (high - low) p."""

    uses: ClassVar[tuple[str, ...]] = ("number", "client_time")

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
        from scipy.special import gammainccinv, gammaincinv  # takes long to import

        values = np.where(p < 0.5, gammaincinv(shape, p), gammainccinv(shape, 1.0 - p))
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
