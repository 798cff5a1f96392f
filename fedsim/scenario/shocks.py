"""Shocks: what takes many devices out at once, by chance or by the calendar, beside the life of each of them."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator, model_validator

from fedsim.common.arguments import short_repr
from fedsim.common.formatting import listing
from fedsim.scenario.sources import TimeSource
from fedsim.scenario.strict import Model
from fedsim.scenario.units import PositiveDuration, TimeZone, format_instant, parse_instant

MOST_AT_ONCE = 100.0
"""Shocks of one kind that may run at once in one place, on average."""


def parse_moment(value: object) -> datetime:
    """Return an instant with a zone, or a local date and time without one; a date alone is its midnight."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = value.isoformat()
    example = "an instant such as 2026-01-05T00:00:00Z, or a local time such as 2026-01-05T18:00 or 2026-01-05"
    try:
        moment = (
            value if isinstance(value, datetime) else datetime.fromisoformat(value if isinstance(value, str) else "")
        )
    except ValueError:
        raise ValueError(f"must be {example}, not {short_repr(value)}") from None
    parse_instant(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))  # its year
    return moment


def parse_day(value: object) -> date:
    """Return a date such as ``2026-12-25``."""
    wrong = f"must be a date such as 2026-12-25, not {short_repr(value)}"
    try:
        moment = parse_moment(value)
    except ValueError:
        raise ValueError(wrong) from None
    if moment.tzinfo is not None or moment != datetime(moment.year, moment.month, moment.day):
        raise ValueError(wrong)
    return moment.date()


Moment = Annotated[
    datetime,
    BeforeValidator(parse_moment),
    PlainSerializer(format_instant, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2026-01-05T00:00:00Z", "2026-01-05T18:00", "2026-01-05"]}),
]
DayOfYear = Annotated[
    date,
    BeforeValidator(parse_day),
    PlainSerializer(date.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2026-12-25"]}),
]


class Window(Model):
    """A stretch of time that is known beforehand."""

    begin: Moment
    """When it begins: an instant, or without a zone the local time of each device."""
    end: Moment | None = None
    """When it is over, in the same way. Never, where it is not given; at once, where the shock has a recovery."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end is None:
            return self
        if (self.begin.tzinfo is None) != (self.end.tzinfo is None):
            raise ValueError("begin and end must both have a zone, or both be local times")
        if self.end <= self.begin:
            raise ValueError(f"ends at {format_instant(self.end)}, not after it begins")
        return self


class Shock(Model):
    """What takes many devices out at once: by chance (every, or down), or at known times (windows, days)."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = ""
    """What it is called, the key of its draws; shock-1, shock-2, ... where it is not given."""
    of: Literal["everyone", "zone", "group", "server"] = "everyone"
    """Whom one shock befalls: everyone at once; each time zone, or each group, by shocks of its own; server: nobody can
    reach the server, and it opens no round."""
    zones: Annotated[list[TimeZone], Field(min_length=1)] | None = None
    """Only devices that live in these time zones; any, where it is not given."""
    groups: Annotated[list[str], Field(min_length=1)] | None = None
    """Only devices of these groups; any, where it is not given."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Chance of each device to be hit, drawn anew for each shock; 1, where it is not given."""
    every: PositiveDuration | None = None
    """Mean time from the beginning of one shock to that of the next: they come independently, as a Poisson process."""
    length: TimeSource | None = None
    """How long a shock lasts, the same for all that it hits; drawn for each shock."""
    down: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Instead of every: the share of time that a device is out by these shocks."""
    correlation: Annotated[float, Field(gt=0, le=1)] | None = None
    """Instead of share, with down: the correlation between two devices that the same shocks befall, of being out."""
    windows: Annotated[list[Window], Field(min_length=1, max_length=10_000)] | None = None
    """Known times, instead of those by chance."""
    days: Annotated[list[DayOfYear], Field(min_length=1, max_length=10_000)] | None = None
    """Known local days, from midnight to midnight, such as holidays."""
    recovery: TimeSource | None = None
    """How long each device that was hit stays out after a known time is over, drawn for each; none, if not given."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in SHOCK_KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            instead = f"not {' and '.join(given)}" if given else "to say when it happens"
            raise ValueError(f"needs one of {listing([*SHOCK_KINDS])}, {instead}")
        for name in ("length", "correlation", "recovery"):
            if getattr(self, name) is not None and name not in self.kind.beside:
                raise ValueError(f"{name} does not go with {given[0]}")
        if "length" in self.kind.beside and self.length is None:
            raise ValueError(f"{given[0]} needs length, how long a shock lasts")
        if self.down is not None and (self.correlation is None) == (self.share is None):
            raise ValueError("down needs either share or correlation")
        return self

    @model_validator(mode="after")
    def _of_the_server(self) -> Self:
        if self.of != "server":
            return self
        for name in ("zones", "groups", "share", "correlation", "recovery"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} does not go with of: server, which no device can reach")
        if self.days is not None or any(window.begin.tzinfo is None for window in self.windows or ()):
            raise ValueError("of: server has no local time: give windows with a zone")
        if any(window.end is None for window in self.windows or ()):
            raise ValueError("of: server needs an end of each window: no run outlasts its server")
        return self

    @field_validator("length", "recovery")
    @classmethod
    def _some_length(cls, length: Any) -> Any:
        if length is not None and length.kind == "constant" and not length.value > 0:
            raise ValueError("must be longer than 0s")
        return length

    @property
    def kind(self) -> "Kind":
        """What follows from the key that says when it happens."""
        return next(kind for name, kind in SHOCK_KINDS.items() if getattr(self, name) is not None)


class Kind(NamedTuple):
    """What follows from how a shock says when it happens."""

    by_chance: bool
    local: bool  # whether its times are read by each zone's clock
    beside: tuple[str, ...]  # keys that may stand beside it


SHOCK_KINDS: Final = {
    "every": Kind(by_chance=True, local=False, beside=("length",)),
    "down": Kind(by_chance=True, local=False, beside=("length", "correlation")),
    "windows": Kind(by_chance=False, local=True, beside=("recovery",)),
    "days": Kind(by_chance=False, local=True, beside=("recovery",)),
}
"""By the key of a `Shock`, of which it has one."""


@dataclass(frozen=True)
class Rates:
    """How often shocks come by chance, and whom they hit, whichever way the scenario says it.

    Shocks begin as a Poisson process and last independently, so that the number that runs at an instant is Poisson
    with mean m = length / every (Takacs, *Introduction to the Theory of Queues*, 1962, M/G/infinity). Each of them
    hits a device with probability s: it is out with probability 1 - exp(-m s), two are both free with probability
    exp(-m (2 s - s^2)), and their correlation is (exp(m s^2) - 1) / (exp(m s) - 1).
    """

    running: float  # m: shocks that run at an instant, on average
    share: float  # s: chance of a device to be hit by each

    @property
    def down(self) -> float:
        """Share of time that a device is out."""
        return -math.expm1(-self.running * self.share)

    @property
    def correlation(self) -> float:
        """Correlation between two devices, of being out at an instant."""
        return math.expm1(self.running * self.share**2) / math.expm1(self.running * self.share)


def rates(shock: Shock, mean_s: float) -> Rates:
    """Return the rates of a shock by chance whose length has this mean in seconds.

    A `ValueError` says if more of them would run at once than `MOST_AT_ONCE`, on average.
    """
    share = 1.0 if shock.share is None else shock.share
    if shock.every is not None:
        figures = Rates(mean_s / shock.every, share)
    else:
        assert shock.down is not None
        load = -math.log1p(-shock.down)  # m s
        if shock.correlation is not None:  # m s^2 = log(1 + rho (exp(m s) - 1))
            share = math.log1p(shock.correlation * math.expm1(load)) / load
        figures = Rates(load / share, min(share, 1.0))
    if not figures.running <= MOST_AT_ONCE:
        raise ValueError(
            f"{figures.running:,.3g} of these shocks would run at once, on average: at most {MOST_AT_ONCE:g} are "
            "possible; let them come less often, be shorter, or hit more"
        )
    return figures
