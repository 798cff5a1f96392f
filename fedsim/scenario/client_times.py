"""Where a per-client length of time comes from: as a number, but with units."""

from typing import Annotated

from fedsim.scenario.component import Kinds
from fedsim.scenario.sources import (
    Column,
    ConstantTime,
    Drawn,
    ExponentialTime,
    Listed,
    Lognormal,
    Mixture,
    OwnDrawn,
    Pareto,
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
