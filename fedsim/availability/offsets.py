"""Offsets of a time zone from UTC over time, as pieces within which civil time runs like any clock."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

_FIRST_YEAR, _LAST_YEAR = 1700, 3200
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def offset_at(zone: tzinfo, epoch: float) -> float:
    """Return the offset from UTC in seconds at an instant, given in seconds since 1970."""
    if isinstance(zone, timezone):
        return zone.utcoffset(None).total_seconds()
    return float(_offset(zone, min(max(epoch, seconds_of(_FIRST_YEAR)), seconds_of(_LAST_YEAR))))


def offset_pieces(zone: tzinfo, since: float) -> Iterator[tuple[float, float, float]]:
    """Yield (from, until, offset) in seconds since 1970, in order and without gaps, the first from `since`.

    The last one goes on for ever: clocks are not changed after the year 3200.
    """
    begin, offset = since, offset_at(zone, since)
    if not isinstance(zone, timezone):
        first = (_EPOCH + timedelta(seconds=min(max(since, seconds_of(_FIRST_YEAR)), seconds_of(_LAST_YEAR)))).year
        for year in range(first, _LAST_YEAR):
            for instant, _, after in changes(zone, year):
                if instant > begin:
                    yield begin, float(instant), offset
                    begin, offset = float(instant), float(after)
    yield begin, math.inf, offset


@lru_cache(maxsize=4096)
def changes(zone: tzinfo, year: int) -> tuple[tuple[int, int, int], ...]:
    """Return (seconds since 1970, offset before, offset after) for every change of the offset in a year of UTC.

    The offset is looked at once a day, and the instant of a change is found by bisection to the second.
    """
    found = []
    days = range(seconds_of(year), seconds_of(year + 1) + 1, _DAY)
    before = _offset(zone, days[0])
    for day in days[1:]:
        after = _offset(zone, day)
        if after != before:
            low, high = day - _DAY, day
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(zone, middle) == after else (middle, high)
            found.append((high, before, after))
        before = after
    return tuple(found)


def seconds_of(year: int) -> int:
    """Return the seconds from 1970 to the beginning of a year of UTC."""
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).days * _DAY


def _offset(zone: tzinfo, epoch: float) -> int:
    offset = (_EPOCH + timedelta(seconds=math.floor(epoch))).astimezone(zone).utcoffset() or timedelta()
    return int(offset.total_seconds())
