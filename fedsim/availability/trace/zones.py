"""Offsets of a time zone from UTC over time, as pieces within which civil time runs like any clock."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from fedsim.availability.civil import offset_changes

_FIRST_YEAR, _LAST_YEAR = 1700, 3200
_FIRST, _LAST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (_FIRST_YEAR, _LAST_YEAR))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def offset_at(zone: tzinfo, epoch: float) -> float:
    """Return the offset from UTC in seconds at an instant, given in seconds since 1970."""
    return (_calendar(epoch).astimezone(zone).utcoffset() or timedelta()).total_seconds()


def offset_pieces(zone: tzinfo, since: float) -> Iterator[tuple[float, float, float]]:
    """Yield (from, until, offset) in seconds since 1970, in order and without gaps, the first from `since`.

    The last one goes on for ever: clocks are not changed after the year 3200.
    """
    begin, offset = since, offset_at(zone, since)
    fixed = isinstance(zone, timezone)
    for year in range(_LAST_YEAR if fixed else _calendar(since).year, _LAST_YEAR):
        for second, _, after in offset_changes(zone, year):
            instant = float(second - _EPOCH.toordinal() * 86_400)
            if instant > begin:
                yield begin, instant, offset
                begin, offset = instant, float(after)
    yield begin, math.inf, offset


def _calendar(epoch: float) -> datetime:
    """Return an instant, or the nearest one of the years that are known, to the second."""
    return _EPOCH + timedelta(seconds=math.floor(min(max(epoch, _FIRST), _LAST)))
