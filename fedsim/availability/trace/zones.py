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
    inside = min(max(epoch, _seconds(_FIRST_YEAR)), _seconds(_LAST_YEAR))
    offset = (_EPOCH + timedelta(seconds=math.floor(inside))).astimezone(zone).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def offset_pieces(zone: tzinfo, since: float) -> Iterator[tuple[float, float, float]]:
    """Yield (from, until, offset) in seconds since 1970, in order and without gaps, the first from `since`.

    The last one goes on for ever: clocks are not changed after the year 3200.
    """
    begin, offset = since, offset_at(zone, since)
    if not isinstance(zone, timezone):
        first = (_EPOCH + timedelta(seconds=min(max(since, _seconds(_FIRST_YEAR)), _seconds(_LAST_YEAR)))).year
        for year in range(first, _LAST_YEAR):
            for instant, after in _changes(zone, year):
                if instant > begin:
                    yield begin, instant, offset
                    begin, offset = instant, after
    yield begin, math.inf, offset


@lru_cache(maxsize=4096)
def _changes(zone: tzinfo, year: int) -> tuple[tuple[float, float], ...]:
    """Return the instants of one year at which the offset changes, and the offset from then on.

    The offset is looked at once a day, and the instant of a change is found by bisection to the second.
    """
    found = []
    days = range(_seconds(year), _seconds(year + 1) + 1, _DAY)
    before = offset_at(zone, days[0])
    for day in days[1:]:
        after = offset_at(zone, day)
        if after != before:
            low, high = day - _DAY, day
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(zone, middle) == before else (low, middle)
            found.append((float(high), after))
        before = after
    return tuple(found)


def _seconds(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).days * _DAY
