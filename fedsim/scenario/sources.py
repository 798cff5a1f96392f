"""Where numbers, lengths of time and time zones come from, one for each client, or each session.

A constant, a list, a law, a mixture, or a column of a file.
"""

from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from fedsim.scenario.civil import TimeZone
from fedsim.scenario.component import Component, Kinds
from fedsim.scenario.model import Model, value_as
from fedsim.scenario.units import Duration, PositiveDuration

Positive = Annotated[float, Field(gt=0)]
Rounds = Annotated[int, Field(ge=0, le=10**9)]
_T = TypeVar("_T")
_N = TypeVar("_N", bound=float)


class Correlation(Model):
    """How a drawn quantity goes with another property of the client: a Gaussian copula."""

    to: Literal["availability", "order"]
    """availability: how much the person's habits make the device available; order: the client's place in its group,
    which is the order of its data in the built-in problems."""
    rho: Annotated[float, Field(ge=-1, le=1)]
    """Correlation of the normal scores: 1 gives the largest values to the most available (or the last) clients, -1 to
    the least available (or the first)."""


class Drawn(Model):
    """A quantity that is drawn for each client."""

    correlation: Correlation | None = None
    """What it goes with; nothing, where it is not given."""


class OwnDrawn(Drawn, Component):
    """A law of your own, drawn for each client: a known name, or ``package.module:Name``; and its options."""


class Constant(Model, Generic[_T]):
    """The same for every client of the group, or every time."""

    kind: Literal["constant"]
    value: _T
    """What it is."""


class Listed(Model, Generic[_T]):
    """One for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[_T], Field(min_length=1)]
    """As many as the group has devices."""


class Ranked(Drawn):
    """A quantity that falls with the rank of the client: that of its place in the group, unless it is correlated."""

    exponent: Annotated[float, Field(ge=0, le=50)]
    """How steep the tail is; 0 makes all equal."""
    per_rank: Annotated[int, Field(ge=1)] = 1
    """Consecutive clients that share a rank, such as the members of one selection group."""


class Zipf(Ranked):
    """rank ** -exponent for the clients of the group in order: the paper's long tail."""

    kind: Literal["zipf"]


class ZipfFrom(Ranked, Generic[_T]):
    """largest * rank ** -exponent for the clients of the group in order."""

    kind: Literal["zipf"]
    largest: _T
    """That of the first rank."""


class Uniform(Drawn, Generic[_N]):
    """Uniform between low and high, drawn for each client."""

    unit: ClassVar[str] = ""

    kind: Literal["uniform"]
    low: _N
    """Least possible value."""
    high: _N
    """Largest possible value."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:.12g}{self.unit}, above high, {self.high:.12g}{self.unit}")
        return self


class ConstantNumber(Constant[Positive]):
    """The same number for every client of the group."""


class ConstantRounds(Constant[Rounds]):
    """The same number of rounds for every client of the group."""


class ConstantTime(Constant[Duration]):
    """The same length every time."""


class ListedNumbers(Listed[Positive]):
    """One number for each client of the group, in order."""


class ListedRounds(Listed[Rounds]):
    """One number of rounds for each client of the group, in order."""


class ZipfRounds(ZipfFrom[Rounds]):
    """largest * rank ** -exponent, rounded, for the clients of the group in order."""


class UniformNumber(Uniform[Positive]):
    """Uniform between low and high, drawn for each client."""


class UniformRounds(Uniform[Rounds]):
    """A whole number between low and high, both included, drawn for each client."""

    law: ClassVar[str] = "whole_uniform"


class UniformTime(Uniform[Duration]):
    """Uniform between low and high, drawn for each client."""

    unit: ClassVar[str] = "s"


class Pareto(Drawn):
    """minimum * U ** (-1 / shape): a power law, drawn for each client."""

    kind: Literal["pareto"]
    shape: Annotated[float, Field(gt=0, le=100)]
    """How fast the tail falls; up to 1 the mean is infinite."""
    minimum: Positive = 1.0
    """Least possible value."""


class Dirichlet(Drawn):
    """Shares of one Dirichlet draw over the clients of the group, each with this concentration."""

    kind: Literal["dirichlet"]
    concentration: Annotated[float, Field(ge=0.01, le=1e6)]
    """Small: few clients have nearly all; large: nearly even."""


class Lognormal(Drawn):
    """exp(Normal(log(median), sigma)), drawn for each client."""

    kind: Literal["lognormal"]
    median: Positive = 1.0
    """Half of the clients lie below."""
    sigma: Annotated[float, Field(ge=0, le=50)]
    """Standard deviation of the logarithm."""


class Column(Model):
    """A column of a CSV or Parquet file with one row for each client of the group, in order."""

    kind: Literal["column"]
    file: Annotated[str, Field(min_length=1)]
    """Path, relative to the folder of the scenario file."""
    column: Annotated[str, Field(min_length=1)]
    """Name of the column."""


class Part(Model, Generic[_T]):
    """One part of a mixture."""

    share: Positive
    """Chance that a client belongs to it; the shares are taken relative to their sum."""
    source: _T
    """What its clients have, or where it comes from."""


class Mixture(Drawn, Generic[_T]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[_T], Field(min_length=1, max_length=20)]
    """The parts."""


class ExponentialTime(Model):
    """Exponential with this mean, drawn for each session."""

    kind: Literal["exponential"]
    mean: PositiveDuration
    """Mean length."""


class LognormalTime(Model):
    """exp(Normal(log(median), sigma)), drawn for each session."""

    kind: Literal["lognormal"]
    median: PositiveDuration
    """Half of the sessions are shorter."""
    sigma: Annotated[float, Field(ge=0, le=10)]
    """Standard deviation of the logarithm."""


def short_source(value: Any) -> Any:
    """Read a bare number as a constant and a bare list as a list."""
    return {"kind": "list", "values": value} if isinstance(value, list) else value_as("constant", "value")(value)


NumberPartSource = Annotated[
    ConstantNumber | UniformNumber | Lognormal | Pareto | OwnDrawn, Kinds(short_source, Positive)
]


class NumberPart(Part[NumberPartSource]):
    """One part of a mixture."""


class NumberMixture(Mixture[NumberPart]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """


NumberSource = Annotated[
    ConstantNumber
    | ListedNumbers
    | Zipf
    | UniformNumber
    | Lognormal
    | Pareto
    | Dirichlet
    | NumberMixture
    | Column
    | OwnDrawn,
    Kinds(short_source, Positive | list[Positive]),
]

RoundsPartSource = Annotated[
    ConstantRounds | UniformRounds | Lognormal | Pareto | OwnDrawn, Kinds(short_source, Rounds)
]


class RoundsPart(Part[RoundsPartSource]):
    """One part of a mixture of whole numbers."""


class RoundsMixture(Mixture[RoundsPart]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """


RoundsSource = Annotated[
    ConstantRounds | ListedRounds | ZipfRounds | UniformRounds | Lognormal | Pareto | RoundsMixture | Column | OwnDrawn,
    Kinds(short_source, Rounds | list[Rounds]),
]

TimeSource = Annotated[ConstantTime | ExponentialTime | LognormalTime | Component, Kinds(short_source, Duration)]


class ListedTimes(Listed[Duration]):
    """One length for each client of the group, in order."""


class ZipfTime(ZipfFrom[PositiveDuration]):
    """largest * rank ** -exponent for the clients of the group in order."""


class ExponentialClientTime(ExponentialTime, Drawn):
    """Exponential with this mean, drawn for each client."""


class LognormalClientTime(Lognormal):
    """exp(Normal(log(median), sigma)), drawn for each client."""

    median: PositiveDuration
    """Half of the clients lie below."""


class ParetoClientTime(Pareto):
    """minimum * U ** (-1 / shape): a power law, drawn for each client."""

    minimum: PositiveDuration
    """Least possible length."""


TimePartSource = Annotated[
    ConstantTime | UniformTime | ExponentialClientTime | LognormalClientTime | ParetoClientTime | OwnDrawn,
    Kinds(short_source, Duration),
]


class TimePart(Part[TimePartSource]):
    """One part of a mixture of lengths."""


class TimeMixture(Mixture[TimePart]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """


ClientTimeSource = Annotated[
    ConstantTime
    | ListedTimes
    | ZipfTime
    | UniformTime
    | ExponentialClientTime
    | LognormalClientTime
    | ParetoClientTime
    | TimeMixture
    | Column
    | OwnDrawn,
    Kinds(short_source, Duration | list[Duration]),
]


class ConstantZone(Constant[TimeZone]):
    """The same time zone for every client of the group."""


class ListedZones(Listed[TimeZone]):
    """One time zone for each client of the group, in order."""


class ZonePart(Part[TimeZone]):
    """One part of a mixture of time zones."""


class ZoneMixture(Mixture[ZonePart]):
    """Each client lives in one of several time zones, by chance.

    Its correlation is that of the place in the list: `order` with rho 1 gives the first zone to the first clients.
    """

    parts: Annotated[list[ZonePart], Field(min_length=1, max_length=1000)]
    """The zones."""


ZoneSource = Annotated[
    ConstantZone | ListedZones | ZoneMixture | Column, Kinds(short_source, TimeZone | list[TimeZone])
]
