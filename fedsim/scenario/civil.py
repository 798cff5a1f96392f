"""Civil time as people write it: times of day, time zones, and weights for the hours of a day."""

import functools
import re
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from fedsim.scenario.model import did_you_mean

_CLOCK = re.compile(r"^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$")


def parse_clock(value: object) -> float:
    """Return the seconds after midnight of a time of day such as ``22:30`` or ``06:15:30``.

    Raises
    ------
    ValueError
        For anything else, a bare number included: 22 could mean hours or seconds.
    """
    match = _CLOCK.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be a time of day such as 22:30, not {value!r}")
    hours, minutes, seconds = (int(part) for part in match.groups(default="0"))
    return 3600.0 * hours + 60.0 * minutes + seconds


def format_clock(seconds: float) -> str:
    """Write a time of day so that `parse_clock` reads the same."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


@functools.cache
def _cities() -> dict[str, str]:
    return {zone.rpartition("/")[2]: zone for zone in sorted(_zones())}


def check_time_zone(name: str) -> str:
    """Return the name of a time zone.

    Raises
    ------
    ValueError
        If there is no zone of that name in the IANA database.
    """
    if name not in _zones():
        cities = _cities()
        hint = did_you_mean(name, _zones())
        if "mean" not in hint and name.replace(" ", "_") in cities:
            hint = f"; did you mean {cities[name.replace(' ', '_')]!r}?"
        if "mean" not in hint:
            hint = "; names are those of the IANA database, such as Europe/Berlin, Asia/Kolkata or UTC"
        raise ValueError(f"unknown time zone {name!r}{hint}")
    ZoneInfo(name)
    return name


def _some_weight(weights: list[float]) -> list[float]:
    if not sum(weights) > 0:
        raise ValueError("needs at least one hour with a weight above 0")
    return weights


ClockTime = Annotated[
    float,
    BeforeValidator(parse_clock),
    PlainSerializer(format_clock, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d)?$", "examples": ["22:30"]}),
]
TimeZone = Annotated[
    str,
    AfterValidator(check_time_zone),
    WithJsonSchema({"type": "string", "examples": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]}),
]
HourWeights = Annotated[
    list[Annotated[float, Field(ge=0, le=1e6)]], Field(min_length=24, max_length=24), AfterValidator(_some_weight)
]
