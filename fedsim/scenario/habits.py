"""Habits of the people behind the devices: when they charge, where their network is, when they use the screen.

Where the defaults come from is told in docs/availability.md.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.scenario.component import Choice
from fedsim.scenario.shocks import DayOfYear
from fedsim.scenario.sources import TimeSource
from fedsim.scenario.strict import Model, SparseModel, each_once
from fedsim.scenario.units import ClockTime, Duration, HourWeights, PositiveDuration

Condition = Literal["charging", "network", "idle"]
Chance = Annotated[float, Field(ge=0, le=1)]
Deviation = Annotated[Duration, Field(le=3 * HOUR_S)]
_Spread = Annotated[float, Field(ge=0, le=5)]

_TOP_UP_HOURS = [1.0, 0.5, 0.3, 0.2, 0.2, 0.4, 1, 2, 3, 3.5, 3.5, 3.5, 4, 4.5, 5, 4.5, 4.5, 5, 5.5, 5.5, 5, 4, 3, 2]
_USE_HOURS = [1.6, 0.7, 0.35, 0.2, 0.2, 0.4, 1.5, 3, 4, 4.3, 4.5, 4.7, 5, 5, 4.9, 4.9, 5.1, 5.4, 5.6, 5.7, 5.7, 5.4]
_USE_HOURS += [4.6, 3.1]


class NightCharging(Model):
    """One long session in a night: plugged in at bedtime, unplugged in the morning."""

    chance: Chance = 0.75
    """Share of nights with such a session, over all persons."""
    plug_in: ClockTime = Field(default="22:45", validate_default=True)
    """Usual time before a working day; a time before 12:00 is after midnight."""
    plug_in_weekend: ClockTime = Field(default="23:30", validate_default=True)
    """Usual time before a Saturday or Sunday."""
    length: PositiveDuration = Field(default="7h45m", validate_default=True, le=16 * HOUR_S)
    """Usual time on the charger before a working day, at most 16h."""
    length_weekend: PositiveDuration = Field(default="8h30m", validate_default=True, le=16 * HOUR_S)
    """Usual time on the charger before a Saturday or Sunday."""
    between_persons: Deviation = Field(default="75m", validate_default=True)
    """Standard deviation of a person's usual plug-in time among persons, at most 3h."""
    between_days: Deviation = Field(default="40m", validate_default=True)
    """Standard deviation of one person's plug-in time from day to day."""
    length_between_persons: Deviation = Field(default="60m", validate_default=True)
    """Standard deviation of a person's usual length among persons."""
    length_between_days: Deviation = Field(default="50m", validate_default=True)
    """Standard deviation of one person's length from day to day."""


class TopUpCharging(Model):
    """Short sessions at any time of the day."""

    per_day: Annotated[float, Field(ge=0, le=4)] = 1.6
    """Sessions on a working day, on average over all persons; a person has at most four."""
    per_day_weekend: Annotated[float, Field(ge=0, le=4)] = 1.6
    """Sessions on a Saturday or Sunday."""
    length: TimeSource = Field(default={"kind": "lognormal", "median": "55m", "sigma": 0.8}, validate_default=True)
    """Time on the charger; longer ones are cut at 8h."""
    by_hour: HourWeights = _TOP_UP_HOURS
    """How likely each local hour is for plugging in, 24 relative weights."""


class Charging(Model):
    """When the device is on a charger."""

    night: NightCharging = Field(default_factory=NightCharging)
    """The long session of a night."""
    top_up: TopUpCharging = Field(default_factory=TopUpCharging)
    """Short sessions by day."""
    spread: _Spread = 0.8
    """How much persons differ in how often they charge: standard deviation on the probit scale."""


class Outing(Model):
    """The time away from home on one local day."""

    chance: Chance
    """Share of the days with an outing."""
    leave: ClockTime
    """Usual time of leaving home."""
    back: ClockTime
    """Usual time of being back, on the same day."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.back <= self.leave:
            raise ValueError("back must be later than leave: an outing begins and ends on the same day")
        return self


class DropOuts(Model):
    """A network that fails for a while, at any time."""

    per_hour: Annotated[float, Field(ge=0, le=60)] = 0.1
    """Failures for each hour."""
    length: TimeSource = Field(default={"kind": "exponential", "mean": "3m"}, validate_default=True)
    """How long a failure lasts; longer ones are cut at 1h."""


class Network(Model):
    """When the device is on an unmetered network."""

    home: Chance = 0.85
    """Share of persons with an unmetered network at home."""
    work: Chance = 0.4
    """Share of persons with one where they are on working days."""
    weekday: Outing = Field(default={"chance": 0.75, "leave": "08:00", "back": "17:45"}, validate_default=True)
    """Away from home, Monday to Friday."""
    weekend: Outing = Field(default={"chance": 0.6, "leave": "11:30", "back": "16:30"}, validate_default=True)
    """Away from home, Saturday and Sunday."""
    commute: Duration = Field(default="30m", validate_default=True, le=6 * HOUR_S)
    """Each way on working days, with neither network."""
    between_persons: Deviation = Field(default="70m", validate_default=True)
    """Standard deviation of the usual times of leaving and being back among persons, at most 3h."""
    between_days: Deviation = Field(default="40m", validate_default=True)
    """Standard deviation of these times from day to day."""
    drop_outs: DropOuts = Field(default_factory=DropOuts)
    """Failures of the network."""
    spread: _Spread = 0.5
    """How much persons of high and low propensity differ in having these networks, on the probit scale."""


class Idle(Model):
    """When nobody uses the device."""

    uses_per_day: Annotated[float, Field(ge=0, le=250)] = 57.0
    """Times that the screen is used on a day of 24 hours, on average over all persons."""
    use: TimeSource = Field(default={"kind": "lognormal", "median": "40s", "sigma": 1.5}, validate_default=True)
    """How long the screen is used each time; longer uses are cut at 1h."""
    by_hour: HourWeights = _USE_HOURS
    """How likely each local hour is for a use, 24 relative weights."""
    settle: Annotated[Duration, Field(le=2 * HOUR_S)] = Field(default="17m", validate_default=True)
    """How long the screen must have been off before the device counts as idle, at most 2h."""
    spread: _Spread = 0.55
    """How much persons differ: standard deviation of the logarithm of their uses per day."""


class HabitDrift(Model):
    """Habits that change evenly from day to day, from the first day of the run on, and then stay."""

    over: Annotated[PositiveDuration, Field(ge=DAY_S)]
    """Time until they have changed, at least a day."""
    plug_in: ClockTime | None = None
    """What becomes of `charging.night.plug_in`; `plug_in_weekend` moves by as much. It stays, where it is not given."""
    night_chance: Chance | None = None
    """What becomes of `charging.night.chance`. It stays, where it is not given."""
    outing_chance: Chance | None = None
    """What becomes of `network.weekday.chance`: people who stay at home stay on its network. It stays, where it is not
    given."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.plug_in is None and self.night_chance is None and self.outing_chance is None:
            raise ValueError("says of no habit what becomes of it: give plug_in, night_chance or outing_chance")
        return self


class Holiday(Model):
    """Local days on which people live as on a Sunday."""

    first: DayOfYear
    """The first of these days."""
    last: DayOfYear
    """The last one."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.last < self.first:
            raise ValueError("last must not be before first")
        return self


class Habits(SparseModel, Choice):
    """Availability from daily habits in local civil time: charging, on an unmetered network, and idle."""

    unwritten = frozenset({"drift", "holidays"})

    kind: Literal["habits"]
    require: Annotated[list[Condition], Field(min_length=1), AfterValidator(each_once)] = Field(
        default=["charging", "network", "idle"]
    )
    """Conditions that must all hold."""
    charging: Charging = Field(default_factory=Charging)
    """When the device is on a charger."""
    network: Network = Field(default_factory=Network)
    """When the device is on an unmetered network."""
    idle: Idle = Field(default_factory=Idle)
    """When nobody uses the device."""
    drift: HabitDrift | None = None
    """How habits change over weeks; not at all, where it is not given."""
    holidays: Annotated[list[Holiday], Field(max_length=1_000)] = Field(default_factory=list)
    """School holidays and the like: Saturdays and Sundays are such days anyway."""
