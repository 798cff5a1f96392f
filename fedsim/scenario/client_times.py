"""Where a per-client length of time comes from: as a number, but with units."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, model_validator

from fedsim.scenario.model import Model
from fedsim.scenario.sources import Column, ConstantTime, Drawn, Positive, Ranked, short_source
from fedsim.scenario.units import Duration, PositiveDuration


class ListedTimes(Model):
    """One length for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[Duration], Field(min_length=1)]
    """As many durations as the group has devices."""


class ZipfTime(Ranked):
    """largest * rank ** -exponent for the clients of the group in order."""

    kind: Literal["zipf"]
    largest: PositiveDuration
    """That of the first rank."""


class UniformTime(Drawn):
    """Uniform between low and high, drawn for each client."""

    kind: Literal["uniform"]
    low: Duration
    """Least possible length."""
    high: Duration
    """Largest possible length."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}s, above high, {self.high:g}s")
        return self


class ExponentialClientTime(Drawn):
    """Exponential with this mean, drawn for each client."""

    kind: Literal["exponential"]
    mean: PositiveDuration
    """Mean length."""


class LognormalClientTime(Drawn):
    """exp(Normal(log(median), sigma)), drawn for each client."""

    kind: Literal["lognormal"]
    median: PositiveDuration
    """Half of the clients lie below."""
    sigma: Annotated[float, Field(ge=0, le=50)]
    """Standard deviation of the logarithm."""


class ParetoClientTime(Drawn):
    """minimum * U ** (-1 / shape): a power law, drawn for each client."""

    kind: Literal["pareto"]
    minimum: PositiveDuration
    """Least possible length."""
    shape: Annotated[float, Field(gt=0, le=100)]
    """How fast the tail falls; up to 1 the mean is infinite."""


class TimePart(Model):
    """One part of a mixture of lengths."""

    share: Positive
    """Chance that a client belongs to it; the shares are taken relative to their sum."""
    source: "TimePartSource"
    """Where the lengths of its clients come from."""


class TimeMixture(Drawn):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[TimePart], Field(min_length=1, max_length=20)]
    """The parts."""


_DrawnTime = ConstantTime | UniformTime | ExponentialClientTime | LognormalClientTime | ParetoClientTime
TimePartSource = Annotated[
    Annotated[_DrawnTime, Discriminator("kind")],
    BeforeValidator(short_source, json_schema_input_type=Duration | _DrawnTime),
]
TimePart.model_rebuild()
_ClientTime = Annotated[
    ConstantTime
    | ListedTimes
    | ZipfTime
    | UniformTime
    | ExponentialClientTime
    | LognormalClientTime
    | ParetoClientTime
    | TimeMixture
    | Column,
    Discriminator("kind"),
]
ClientTimeSource = Annotated[
    _ClientTime, BeforeValidator(short_source, json_schema_input_type=Duration | list[Duration] | _ClientTime)
]
