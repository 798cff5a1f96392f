"""Quantities as people write them: durations with a unit, instants with a zone.

Those of a scenario are rounded to whole milliseconds, the unit of simulated time.
"""

import math
import re
from datetime import datetime, timedelta
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from fedsim.common.arguments import IN_A_FILE, shown
from fedsim.common.instants import to_ms, to_seconds

_NUMBER = r"(\d+(?:\.\d+)?)"
_SHORT = re.compile(
    rf"^(?=.)(?:{_NUMBER}w)?(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?$"
)
_SHORT_SECONDS = (604_800.0, 86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_ISO = re.compile(rf"^P(?=.)(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?$")
_ISO_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0)
_LONGEST = 1000 * 366 * 86_400.0
_FIRST_YEAR, _END_YEAR = 1900, 2200  # civil time is known there, and calendars do not end
_EXAMPLES = "90s, 10m, 8h, 1d12h or PT8H"


def parse_duration(value: object) -> float:
    """Return the seconds in a duration such as ``90s``, ``1d12h`` or ``PT8H``.

    Raises
    ------
    ValueError
        For anything else, a bare number included: 30 could mean seconds, minutes or rounds.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"needs a unit: write {value}s, {value}m or {value}h, not {value}")  # noqa: TRY004
    if not isinstance(value, str):
        raise ValueError(f"must be a duration such as {_EXAMPLES}, not {shown(value)}")  # noqa: TRY004
    text = value.strip()
    for pattern, units in ((_SHORT, _SHORT_SECONDS), (_ISO, _ISO_SECONDS)):
        match = pattern.match(text)
        if match:
            amounts = match.groups(default="0")
            seconds = math.fsum(float(amount) * unit for amount, unit in zip(amounts, units, strict=True))
            if seconds > _LONGEST:
                raise ValueError(f"is longer than 1000 years: {shown(value)}")
            return seconds
    raise ValueError(f"must be a duration such as {_EXAMPLES}, not {shown(value)}")


def duration_of(value: object, info: ValidationInfo) -> float:
    """Return the seconds in a duration of a scenario, rounded to whole milliseconds.

    In a scenario made in Python it may also be a number of seconds or a `timedelta`.

    Raises
    ------
    ValueError
        For anything else; for a bare number, if the scenario was written in a file (`IN_A_FILE`).
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
        raise ValueError(f"must be above 0 in whole milliseconds, not {shown(value)}")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds so that `parse_duration` reads the very same number: the largest unit that divides them."""
    for name, unit in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    return np.format_float_positional(seconds, trim="-") + "s"


def parse_instant(value: object) -> datetime:
    """Return the instant written as ISO 8601 with an offset, such as ``2026-01-05T00:00:00Z``, to the millisecond."""
    example = "an instant with a zone such as 2026-01-05T00:00:00Z"
    if isinstance(value, datetime):
        instant = value
    elif isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"must be {example}, not {shown(value)}") from None
    else:
        raise ValueError(f"must be {example}, not {value!r}")  # noqa: TRY004
    if instant.tzinfo is None:
        raise ValueError(f"must be {example}: {value!r} does not say in which zone")
    if not _FIRST_YEAR <= instant.year < _END_YEAR:
        raise ValueError(f"must lie between {_FIRST_YEAR} and {_END_YEAR}, not {shown(value)}")
    return instant.replace(microsecond=0) + timedelta(milliseconds=round(instant.microsecond / 1000))


def format_instant(instant: datetime) -> str:
    """Write an instant so that `parse_instant` reads the same one."""
    return instant.isoformat().replace("+00:00", "Z")


_DURATION_SCHEMA = WithJsonSchema(
    {
        "type": "string",
        "pattern": "^(P.+|([0-9.]+(w|d|h|ms|m|s))+)$",
        "examples": ["90s", "10m", "8h", "1d12h", "PT8H"],
    }
)
_WRITTEN = PlainSerializer(format_duration, return_type=str)

Duration = Annotated[float, Field(ge=0), BeforeValidator(duration_of), _WRITTEN, _DURATION_SCHEMA]
PositiveDuration = Annotated[float, Field(gt=0), BeforeValidator(positive_duration_of), _WRITTEN, _DURATION_SCHEMA]
Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(format_instant, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-05T00:00:00Z"]}),
]
