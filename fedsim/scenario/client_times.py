"""Where a per-client length of time comes from: as a number, but with units."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from fedsim.scenario.component import KNOWN, OWN, open_to_own
from fedsim.scenario.sources import (
    Column,
    Constant,
    ConstantTime,
    Drawn,
    Listed,
    Mixture,
    OwnDrawn,
    Part,
    UniformTime,
    ZipfFrom,
    short_source,
)
from fedsim.scenario.units import Duration, PositiveDuration


class ListedTimes(Listed[Duration]):
    """One length for each client of the group, in order."""


class ZipfTime(ZipfFrom[PositiveDuration]):
    """largest * rank ** -exponent for the clients of the group in order."""


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


_Own = Annotated[OwnDrawn, Tag(OWN)]
_Part = Annotated[
    ConstantTime | UniformTime | ExponentialClientTime | LognormalClientTime | ParetoClientTime,
    Discriminator("kind"),
    Tag(KNOWN),
]
_PartOrOwn = Annotated[
    _Part | _Own,
    open_to_own(Constant, UniformTime, ExponentialClientTime, LognormalClientTime, ParetoClientTime),
]
TimePartSource = Annotated[_PartOrOwn, BeforeValidator(short_source, json_schema_input_type=Duration | _PartOrOwn)]


class TimePart(Part[TimePartSource]):
    """One part of a mixture of lengths."""


class TimeMixture(Mixture[TimePart]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """


_Time = Annotated[
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
    Tag(KNOWN),
]
_TimeOrOwn = Annotated[
    _Time | _Own,
    open_to_own(
        *(Constant, Listed, ZipfFrom, UniformTime, ExponentialClientTime, LognormalClientTime, ParetoClientTime),
        *(Mixture, Column),
    ),
]
ClientTimeSource = Annotated[
    _TimeOrOwn, BeforeValidator(short_source, json_schema_input_type=Duration | list[Duration] | _TimeOrOwn)
]
