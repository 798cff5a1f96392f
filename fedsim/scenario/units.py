"""Quantities as people write them: durations, bytes and speeds with a unit, instants with a zone, times of day, zones.

Durations and instants of a scenario are rounded to whole milliseconds, the unit of simulated time.
"""

import functools
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from fedsim.common.arguments import IN_A_FILE, short_repr
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import DAY_S, HOUR_S, to_ms, to_seconds

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SHORT = re.compile(
    rf"^(?=.)(?:{_NUMBER}w)?(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?$"
)
_SHORT_SECONDS = (7 * DAY_S, DAY_S, HOUR_S, 60.0, 1.0, 0.001)
_ISO = re.compile(rf"^P(?=.)(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?$")
_ISO_SECONDS = (DAY_S, HOUR_S, 60.0, 1.0)
_UNITS = "w(?:eek)?|d(?:ay)?|h(?:ou)?r?|m(?:in(?:ute)?)?|s(?:ec(?:ond)?)?|ms|millisecond"
_WORDS = re.compile(rf"{_NUMBER}\s*({_UNITS})s?\b[\s,]*", re.IGNORECASE)
_LONGEST = 1000 * 366 * DAY_S
_FIRST_YEAR, _END_YEAR = 1900, 2200  # civil time is known there, and calendars do not end
_EXAMPLES = "90s, 10m, 8h, 1d12h or PT8H"
_ABBREVIATIONS = {
    **dict.fromkeys(("PST", "PDT", "PT"), "America/Los_Angeles"),
    **dict.fromkeys(("MDT", "MT"), "America/Denver"),
    **dict.fromkeys(("CST", "CDT", "CT"), "America/Chicago"),
    **dict.fromkeys(("EDT", "ET"), "America/New_York"),
    "BST": "Europe/London",
    "CEST": "Europe/Berlin",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "AEST": "Australia/Sydney",
}
_OFFSET = re.compile(r"^(?:UTC|GMT)?([+-])(0?[1-9]|1[0-2])(?::?00)?$")
_CLOCK = re.compile(r"^([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?$")


def _written_as(pattern: str, *examples: str) -> WithJsonSchema:
    """Return the JSON Schema of a text, with space around it or without."""
    return WithJsonSchema({"type": "string", "pattern": rf"^\s*({pattern})\s*$", "examples": list(examples)})


def parse_duration(value: object) -> float:
    """Return the seconds in a duration such as ``90s``, ``1d12h`` or ``PT8H``.

    Anything else is a `ValueError`, a bare number included: 30 could mean seconds, minutes or rounds.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"needs a unit: write {value}s, {value}m or {value}h, not {value}")  # noqa: TRY004
    text = value.strip() if isinstance(value, str) else ""
    if (seconds := _seconds_in(text)) is not None:
        if seconds > _LONGEST:
            raise ValueError(f"is longer than 1000 years: {short_repr(value)}")
        return seconds
    short = "".join(f"{number}{unit}" for number, unit in _words(text)) if _WORDS.sub("", text[:100]) == "" else ""
    hint = f"; did you mean {short!r}?" if _SHORT.match(short) else ""
    raise ValueError(f"must be a duration such as {_EXAMPLES}, not {short_repr(value)}{hint}")


@functools.lru_cache(256)  # every point of a sweep has the same few
def _seconds_in(text: str) -> float | None:
    for pattern, units in ((_SHORT, _SHORT_SECONDS), (_ISO, _ISO_SECONDS)):
        if match := pattern.match(text):
            amounts = match.groups(default="0")
            return math.fsum(float(amount) * unit for amount, unit in zip(amounts, units, strict=True))
    return None


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers and units of a duration in words: ``7 days``, ``1 day 12 hrs``."""
    for number, unit in _WORDS.findall(text[:100]):
        yield number, "ms" if unit.lower().startswith(("ms", "mil")) else unit[0].lower()


def duration_of(value: object, info: ValidationInfo) -> float:
    """Return the seconds in a duration of a scenario, rounded to whole milliseconds.

    In a scenario made in Python it may also be a number of seconds or a `timedelta`. A bare number is a `ValueError` if
    the scenario was written in a file (`IN_A_FILE`).
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, bool) or not isinstance(value, int | float) or info.context == IN_A_FILE:
        value = parse_duration(value)
    if not abs(value) <= _LONGEST:  # neither is it a number
        raise ValueError(f"is longer than 1000 years: {value}s")
    return to_seconds(to_ms(value))


def positive_duration_of(value: object, info: ValidationInfo) -> float:
    """Return the seconds as `duration_of` does, of a duration that is above 0 in whole milliseconds."""
    seconds = duration_of(value, info)
    if seconds == 0.0:
        raise ValueError(f"must be above 0 in whole milliseconds, not {short_repr(value)}")
    return seconds


class _Measure:
    """A positive amount with a unit, of which the first is that of the number itself."""

    def __init__(self, units: Mapping[str, float], *examples: str) -> None:
        self._units, self._examples = units, ", ".join(examples)
        self._pattern = re.compile(rf"^{_NUMBER} ?({'|'.join(units)})$")
        self.schema = _written_as(self._pattern.pattern.strip("^$"), *examples)
        self.read, self.write = BeforeValidator(self._read), PlainSerializer(self._write, return_type=str)

    def _read(self, value: object, info: ValidationInfo) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and info.context != IN_A_FILE:
            return float(value)
        match = self._pattern.match(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"must have a unit, such as {self._examples}, not {short_repr(value)}")
        return float(match[1]) * self._units[match[2]]

    def _write(self, value: float) -> str:
        fitting = [name for name, unit in self._units.items() if value % unit == 0]
        last = fitting[-1] if fitting else next(iter(self._units))
        return f"{np.format_float_positional(value / self._units[last], trim='-')}{last}"


def format_duration(seconds: float) -> str:
    """Write seconds so that `parse_duration` reads the very same number: the largest unit that divides them."""
    for name, unit in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    return np.format_float_positional(seconds, trim="-") + "s"


def parse_instant(value: object) -> datetime:
    """Return the instant written as ISO 8601 with an offset, such as ``2026-01-05T00:00:00Z``, to the millisecond."""
    example = "an instant with a zone such as 2026-01-05T00:00:00Z"
    if not isinstance(value, datetime | str):
        raise ValueError(f"must be {example}, not {value!r}")  # noqa: TRY004
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"must be {example}, not {short_repr(value)}") from None
    if instant.tzinfo is None:
        raise ValueError(f"must be {example}: {value!r} does not say in which zone")
    if not _FIRST_YEAR <= instant.year < _END_YEAR:
        raise ValueError(f"must lie between {_FIRST_YEAR} and {_END_YEAR}, not {short_repr(value)}")
    return instant.replace(microsecond=0) + timedelta(milliseconds=round(instant.microsecond / 1000))


def format_instant(instant: datetime) -> str:
    """Write an instant so that `parse_instant` reads the same one."""
    return instant.isoformat().replace("+00:00", "Z")


def parse_clock(value: object) -> float:
    """Return the seconds after midnight of a time of day such as ``22:30`` or ``06:15:30``.

    Anything else is a `ValueError`, a bare number included: 22 could mean hours or seconds.
    """
    match = _CLOCK.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be a time of day such as 22:30, not {value!r}")
    hours, minutes, seconds = (int(part) for part in match.groups(default="0"))
    return HOUR_S * hours + 60.0 * minutes + seconds


def format_clock(seconds: float) -> str:
    """Write a time of day so that `parse_clock` reads the same."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime", "posixrules", "Factory"}  # of this machine, or none


def check_time_zone(name: str) -> str:
    """Return the name of a time zone; a `ValueError` if the IANA database has none of that name."""
    if name not in _zones():
        city = name.replace(" ", "_")
        of_city = sorted(zone for zone in _zones() if zone.rpartition("/")[2] == city)
        offset = _OFFSET.match(name.upper())
        likely = _ABBREVIATIONS.get(name.upper()) or (of_city[-1] if of_city else "")
        if offset is not None:  # the zones of the database count westwards
            likely = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}"
        hint = did_you_mean(name, _zones()) if not likely else ""
        hint = hint or (f"; did you mean {likely!r}?" if likely else "")
        hint = hint or "; names are those of the IANA database, such as Europe/Berlin, Asia/Kolkata or UTC"
        raise ValueError(f"unknown time zone {name!r}{hint}")
    ZoneInfo(name)
    return name


def _some_weight(weights: list[float]) -> list[float]:
    if not sum(weights) > 0:
        raise ValueError("needs at least one hour with a weight above 0")
    return weights


_DURATION_SCHEMA = _written_as("P.+|([0-9.]+(w|d|h|ms|m|s))+", "90s", "10m", "8h", "1d12h", "PT8H")
_WRITTEN = PlainSerializer(format_duration, return_type=str)

Duration = Annotated[float, Field(ge=0), BeforeValidator(duration_of), _WRITTEN, _DURATION_SCHEMA]
PositiveDuration = Annotated[float, Field(gt=0), BeforeValidator(positive_duration_of), _WRITTEN, _DURATION_SCHEMA]
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
SIZES = {"B": 1.0, **_BINARY, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
"""Units of data, in bytes."""
WEIGHTS = {"g": 1.0, "kg": 1e3, "t": 1e6}
"""Units of mass, in grams."""
_SIZE = _Measure(SIZES, "500kB", "5MB", "3GiB")
_SPEED = _Measure({"bps": 1.0, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}, "800kbps", "20Mbps", "1Gbps")
_WEIGHT = _Measure(WEIGHTS, "400g", "0.4kg")
Size = Annotated[float, Field(gt=0, le=1e15), _SIZE.read, _SIZE.write, _SIZE.schema]
BitRate = Annotated[float, Field(gt=0, le=1e15), _SPEED.read, _SPEED.write, _SPEED.schema]
Grams = Annotated[float, Field(gt=0, le=1e9), _WEIGHT.read, _WEIGHT.write, _WEIGHT.schema]
Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(format_instant, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2026-01-05T00:00:00Z"]}),  # more than the format date-time allows
]
ClockTime = Annotated[
    float,
    BeforeValidator(parse_clock),
    PlainSerializer(format_clock, return_type=str),
    _written_as(_CLOCK.pattern.strip("^$"), "22:30"),
]
TimeZone = Annotated[
    str,
    AfterValidator(check_time_zone),
    WithJsonSchema({"type": "string", "examples": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]}),
]
HourWeights = Annotated[
    list[Annotated[float, Field(ge=0, le=1e6)]], Field(min_length=24, max_length=24), AfterValidator(_some_weight)
]
