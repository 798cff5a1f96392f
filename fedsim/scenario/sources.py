"""Where numbers, lengths of time and time zones come from, one for each client, or each time.

A law (`fedsim.population.distributions`), a list, a mixture, or a column of a file.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Discriminator, Field, Tag

from fedsim.scenario.component import BuiltIn, Choice, Component, Kinds, Use
from fedsim.scenario.permissions import NameOfFile
from fedsim.scenario.strict import Model, Positive, value_as
from fedsim.scenario.units import BitRate, Duration, PositiveDuration, TimeZone

Rounds = Annotated[int, Field(ge=0, le=10**9)]
MOST_STEPS = 100_000
StepCount = Annotated[int, Field(ge=1, le=MOST_STEPS)]
_T = TypeVar("_T")


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


def _of_lengths(name: str, widest: float, drawn: type[Model] | None = None) -> Use:
    scale, spread = PositiveDuration, Annotated[float, Field(ge=0, le=widest)]
    several = Annotated[tuple[Duration, ...], Field(max_length=100, strict=False)]
    types = {"value": Duration, "values": several, "largest": scale, "scale": scale, "spread": spread}
    return Use(name, types, defaults=False, drawn=drawn, unit="s")


def _of_numbers(name: str, value: Any) -> Use:
    types = {"value": value, "largest": value, "scale": Positive, "spread": Annotated[float, Field(ge=0, le=50)]}
    return Use(name, types, drawn=Drawn)


NUMBER, ROUNDS = _of_numbers("number", Positive), _of_numbers("rounds", Rounds)
CLIENT_TIME = _of_lengths("client_time", 50, Drawn)
TIME, INTERVAL = _of_lengths("time", 10), _of_lengths("interval", 10)
_SPREAD = Annotated[float, Field(ge=0, le=5)]
RATE = Use("rate", {"value": BitRate, "scale": BitRate, "spread": _SPREAD}, defaults=False, unit="bps")


class Listed(Choice, Generic[_T]):
    """One for each client of the group, in order."""

    kind: Literal["list"]
    values: Annotated[list[_T], Field(min_length=1)]
    """As many as the group has devices."""


class Column(Choice):
    """A column of a CSV or Parquet file with one row for each client of the group, in order."""

    kind: Literal["column"]
    file: NameOfFile
    """Path, relative to the folder of the scenario file."""
    column: Annotated[str, Field(min_length=1)]
    """Name of the column."""


class Part(Model, Generic[_T]):
    """One part of a mixture."""

    share: Positive
    """Chance that a client belongs to it; the shares are taken relative to their sum."""
    source: _T
    """What its clients have, or where it comes from."""


class Mixture(Choice, Drawn, Generic[_T]):
    """Each client belongs to one of several parts, by chance, and draws from that part's law.

    Its correlation is that of the part: the last parts go where the largest values would.
    """

    kind: Literal["mixture"]
    parts: Annotated[list[_T], Field(min_length=1, max_length=20)]
    """The parts."""


def short_source(value: Any) -> Any:
    """Read a bare number as a constant and a bare list as a list."""
    return {"kind": "list", "values": value} if isinstance(value, list) else value_as("constant", "value")(value)


class ListedNumbers(Listed[Positive]):
    """One number for each client of the group, in order."""


class NumberPart(Part[Annotated[BuiltIn | OwnDrawn, Kinds(short_source, Positive, "law", NUMBER, of_one=True)]]):
    """One part of a mixture."""


class NumberMixture(Mixture[NumberPart]): ...  # noqa: D101  what it is stands in `Mixture`


NumberSource = Annotated[
    BuiltIn | ListedNumbers | NumberMixture | Column | OwnDrawn,
    Kinds(short_source, Positive | list[Positive], "law", NUMBER),
]


class ByEpochs(Choice):
    """As many local steps as so many passes over the client's samples take: epochs * n_i / batch_size, rounded up."""

    kind: Literal["epochs"]
    epochs: Positive = 1.0
    """Passes over the samples of a client."""


class ByDeadline(Choice):
    """As many local steps as fit before the server's deadline at the device's speed, at least 1.

    The training of a session is `most` steps; a device of which fewer fit, by the median lengths of its phases, takes
    these, and so much less time.
    """

    kind: Literal["deadline"]
    most: StepCount
    """Local steps of a device that has the time."""


class ListedRounds(Listed[Rounds]):
    """One whole number for each client of the group, in order."""


class RoundsPart(Part[Annotated[BuiltIn | OwnDrawn, Kinds(short_source, Rounds, "law", ROUNDS, of_one=True)]]):
    """One part of a mixture of whole numbers."""


class RoundsMixture(Mixture[RoundsPart]): ...  # noqa: D101  what it is stands in `Mixture`


RoundsSource = Annotated[
    BuiltIn | ListedRounds | RoundsMixture | Column | OwnDrawn,
    Kinds(short_source, Rounds | list[Rounds], "law", ROUNDS),
]

StepsSource = Annotated[
    Annotated[StepCount, Tag("number")]
    | Annotated[
        Annotated[
            BuiltIn | ListedRounds | RoundsMixture | ByEpochs | ByDeadline | Column | OwnDrawn,
            Kinds(short_source, list[Rounds], "law", ROUNDS),
        ],
        Tag("source"),
    ],
    Discriminator(lambda value: "source" if isinstance(value, dict | list | Choice) else "number"),
]
"""A number of local steps for all clients, or where that of each comes from."""

TimeSource = Annotated[BuiltIn | Component, Kinds(short_source, Duration, "law", TIME)]
RateSource = Annotated[BuiltIn | Component, Kinds(short_source, BitRate, "law", RATE)]
LinkSource = Annotated[BuiltIn | Column | Component, Kinds(short_source, BitRate, "law", RATE)]


class ListedTimes(Listed[Duration]):
    """One length for each client of the group, in order."""


class TimePart(Part[Annotated[BuiltIn | OwnDrawn, Kinds(short_source, Duration, "law", CLIENT_TIME, of_one=True)]]):
    """One part of a mixture of lengths."""


class TimeMixture(Mixture[TimePart]): ...  # noqa: D101  what it is stands in `Mixture`


ClientTimeSource = Annotated[
    BuiltIn | ListedTimes | TimeMixture | Column | OwnDrawn,
    Kinds(short_source, Duration | list[Duration], "law", CLIENT_TIME),
]


class ConstantZone(Choice):
    """The same time zone for every client of the group."""

    kind: Literal["constant"]
    value: TimeZone
    """What it is."""


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

Length = Annotated[BuiltIn | Component, Kinds(value_as("exponential", "mean"), PositiveDuration, "law", INTERVAL)]
"""The law of lengths on or off by turns; a bare duration is the mean of an exponential one."""
