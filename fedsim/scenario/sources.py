"""Where a number comes from: a constant, a list, a law, or a column of a file; one for each client, or each session."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, model_validator

from fedsim.scenario.model import Model
from fedsim.scenario.units import Duration, PositiveDuration

Positive = Annotated[float, Field(gt=0)]
Rounds = Annotated[int, Field(ge=0, le=10**9)]


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


class Constant(Model):
    """The same number for every client of the group."""

    kind: Literal["constant"]
    value: Positive
    """The number."""


class Listed(Model):
    """One number for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[Positive], Field(min_length=1)]
    """As many numbers as the group has devices."""


class Ranked(Drawn):
    """A quantity that falls with the rank of the client: that of its place in the group, unless it is correlated."""

    exponent: Annotated[float, Field(ge=0, le=50)]
    """How steep the tail is; 0 makes all equal."""
    per_rank: Annotated[int, Field(ge=1)] = 1
    """Consecutive clients that share a rank, such as the members of one selection group."""


class Zipf(Ranked):
    """rank ** -exponent for the clients of the group in order: the paper's long tail."""

    kind: Literal["zipf"]


class Uniform(Drawn):
    """Uniform between low and high, drawn for each client."""

    kind: Literal["uniform"]
    low: Positive
    """Least possible value."""
    high: Positive
    """Largest possible value."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high, {self.high}")
        return self


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


class Part(Model):
    """One part of a mixture."""

    share: Positive
    """Chance that a client belongs to it; the shares are taken relative to their sum."""
    source: "PartSource"
    """Where the numbers of its clients come from."""


class Mixture(Drawn):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[Part], Field(min_length=1, max_length=20)]
    """The parts."""


class ConstantRounds(Model):
    """The same number of rounds for every client of the group."""

    kind: Literal["constant"]
    value: Rounds
    """The number of rounds."""


class ListedRounds(Model):
    """One number of rounds for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[Rounds], Field(min_length=1)]
    """As many whole numbers as the group has devices."""


class UniformRounds(Drawn):
    """A whole number between low and high, both included, drawn for each client."""

    kind: Literal["uniform"]
    low: Rounds
    """Least possible value."""
    high: Rounds
    """Largest possible value."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, above high, {self.high}")
        return self


class ZipfRounds(Ranked):
    """largest * rank ** -exponent, rounded, for the clients of the group in order."""

    kind: Literal["zipf"]
    largest: Rounds
    """That of the first rank."""


class RoundsPart(Model):
    """One part of a mixture of whole numbers."""

    share: Positive
    """Chance that a client belongs to it; the shares are taken relative to their sum."""
    source: "RoundsPartSource"
    """Where the numbers of its clients come from."""


class RoundsMixture(Drawn):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[RoundsPart], Field(min_length=1, max_length=20)]
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


class ConstantTime(Model):
    """The same length every time."""

    kind: Literal["constant"]
    value: Duration
    """The length."""


def short_source(value: Any) -> Any:
    """Read a bare number as a constant and a bare list as a list."""
    if isinstance(value, list):
        return {"kind": "list", "values": value}
    return value if isinstance(value, dict | Model) else {"kind": "constant", "value": value}


_Drawn = Constant | Uniform | Lognormal | Pareto
PartSource = Annotated[
    Annotated[_Drawn, Discriminator("kind")], BeforeValidator(short_source, json_schema_input_type=Positive | _Drawn)
]
Part.model_rebuild()
_DrawnRounds = ConstantRounds | UniformRounds | Lognormal | Pareto
RoundsPartSource = Annotated[
    Annotated[_DrawnRounds, Discriminator("kind")],
    BeforeValidator(short_source, json_schema_input_type=Rounds | _DrawnRounds),
]
RoundsPart.model_rebuild()
_Number = Annotated[
    Constant | Listed | Zipf | Uniform | Lognormal | Pareto | Dirichlet | Mixture | Column, Discriminator("kind")
]
_Rounds = Annotated[
    ConstantRounds | ListedRounds | ZipfRounds | UniformRounds | Lognormal | Pareto | RoundsMixture | Column,
    Discriminator("kind"),
]
_Time = Annotated[ConstantTime | ExponentialTime | LognormalTime, Discriminator("kind")]

NumberSource = Annotated[
    _Number, BeforeValidator(short_source, json_schema_input_type=Positive | list[Positive] | _Number)
]
RoundsSource = Annotated[_Rounds, BeforeValidator(short_source, json_schema_input_type=Rounds | list[Rounds] | _Rounds)]
TimeSource = Annotated[_Time, BeforeValidator(short_source, json_schema_input_type=Duration | _Time)]
