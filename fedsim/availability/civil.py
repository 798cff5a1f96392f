"""Civil time: offsets of time zones from UTC, and from simulated time to local clock time and back.

Times are whole milliseconds, but for instants since 1970, which are seconds. Clock time is counted without regard to
offsets from UTC (every day has 24 hours), since midnight of the UTC day in which the run starts. A clock time that a
spring change skips, and one that an autumn change repeats, are both read with the offset in force before the change
(PEP 495, fold=0): 02:30 in a night that goes from 02:00 to 03:00 is the instant called 03:30, and 01:30 in a night that
goes back from 02:00 to 01:00 is the first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, SECOND, each_to_seconds, to_ms

_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_CHANGE, _LAST_CHANGE = 1700, 3200  # years in which clocks are changed
_FIRST_YEAR, _LAST_YEAR = 2, 9997  # datetime ends soon after
_YEARS_OF_DAYS = 200  # longer than any simulation, and few enough to search all of them


@dataclass(frozen=True, eq=False)
class Civil:
    """The clock of one zone over some years."""

    first_day: int  # ordinal (1 is 0001-01-01) of the UTC day in which the run starts
    begun: int  # time of that day at which the run starts
    # changes, offsets: (k,) instants of simulated time at which the offset changes; (k + 1,) what to add to UTC around
    # them
    changes: Ints
    offsets: Ints
    walls: Ints  # (k,) clock times from which the later offset is used

    def wall(self, instants: ArrayLike) -> Ints:
        """Return the clock times of instants of simulated time."""
        instants = np.asarray(instants, dtype=np.int64)
        walls: Ints = instants + self.begun + self.offsets[self.changes.searchsorted(instants, side="right")]
        return walls

    def instant(self, walls: Ints) -> Ints:
        """Return the instants of simulated time at clock times."""
        instants: Ints = walls - self.offsets[self.walls.searchsorted(walls, side="right")] - self.begun
        return instants

    def day(self, instant: int) -> int:
        """Return the ordinal of the local day of an instant."""
        return self.first_day + int(self.wall(instant)) // DAY

    def midnight(self, days: Ints) -> Ints:
        """Return the clock times at which local days begin."""
        return (days - self.first_day) * DAY


@lru_cache(maxsize=4096)
def _civil(start: datetime, zone: ZoneInfo, year: int) -> Civil:
    first_day, begun = _start(start)
    years = range(max(year - 1, _FIRST_YEAR), min(year + 1, _LAST_YEAR) + 1)
    steps = [change for each in years for change in changes_of(zone, each)]
    epochs = np.array([epoch * SECOND for epoch, _ in steps], dtype=np.int64)
    changes = epochs + (_EPOCH.toordinal() - first_day) * DAY - begun
    before = _offset(zone, _seconds_of(years[0]))
    offsets = np.array([before, *(after for _, after in steps)], dtype=np.int64) * SECOND
    return Civil(first_day, begun, changes, offsets, changes + begun + np.maximum(offsets[:-1], offsets[1:]))


@lru_cache(maxsize=4096)
def _start(start: datetime) -> tuple[int, int]:
    """Return the ordinal of the UTC day of the start, and how much of it is over."""
    midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.toordinal(), round((start - midnight) / timedelta(milliseconds=1))


def offset_at(zone: tzinfo, epoch: float) -> float:
    """Return the offset from UTC in seconds at an instant, given in seconds since 1970."""
    return zone.utcoffset(None).total_seconds() if isinstance(zone, timezone) else float(_offset(zone, _clamped(epoch)))


def offset_pieces(zone: tzinfo, since: float, until: float) -> Iterator[tuple[float, float, float]]:
    """Yield (from, to, offset) in seconds since 1970, in order and without gaps, from `since` to `until` or later.

    The last one goes on for ever.
    """
    begin, offset = since, offset_at(zone, since)
    first, last = ((_EPOCH + timedelta(seconds=_clamped(each))).year for each in (since, until))
    for instant, after in (change for year in range(first, last + 1) for change in changes_of(zone, year)):
        if instant > begin:
            yield begin, float(instant), offset
            begin, offset = float(instant), float(after)
    yield begin, math.inf, offset


def _clamped(epoch: float) -> float:
    """Return an instant, or the first or last one with an offset of its own."""
    return min(max(epoch, _seconds_of(_FIRST_CHANGE)), _seconds_of(_LAST_CHANGE) - 1)


@lru_cache(maxsize=4096)
def changes_of(zone: tzinfo, year: int) -> tuple[tuple[int, int], ...]:
    """Return (seconds since 1970, offset from then on) for every change of the offset in a year of UTC.

    The offset is looked at once a day, and the instant of a change is found by bisection to the second.
    """
    changes = []
    days = range(_seconds_of(year), _seconds_of(year + 1) + 1, _DAY_S)
    before = _offset(zone, days[0])
    for day in days[1:]:
        after = _offset(zone, day)
        if after != before:
            low, high = day - _DAY_S, day
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(zone, middle) == after else (middle, high)
            changes.append((high, after))
        before = after
    return tuple(changes)


def _seconds_of(year: int) -> int:
    """Return the seconds from 1970 to the beginning of a year of UTC."""
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).days * _DAY_S


def _offset(zone: tzinfo, epoch: float) -> int:
    offset = (_EPOCH + timedelta(seconds=math.floor(epoch))).astimezone(zone).utcoffset() or timedelta()
    return int(offset.total_seconds())


class Day(NamedTuple):
    """One local day: its date in the zone, and [start, end) in seconds of simulated time from midnight to midnight.

    It has 23 or 25 hours where the clocks are changed.
    """

    date: date
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Place:
    """What turns simulated time into civil time: the instant of time 0, with its zone, and the device's time zone."""

    start: datetime
    zone: ZoneInfo

    def days(self) -> Iterator[Day]:
        """Yield the local days of two hundred years, from the one in which simulated time begins; see `Day`."""
        first = self.start.astimezone(self.zone).year
        for year in range(first, min(first + _YEARS_OF_DAYS, _LAST_YEAR - 1)):
            yield from (day for day in _days(self, year) if day.end > 0.0)

    def seconds(self, local: datetime) -> float:
        """Return the instant of simulated time at which the local clock shows a date and time, given without a zone.

        A time that the clock shows twice is the first; one that is skipped is read with the offset before the change.
        """
        return (local.replace(tzinfo=self.zone).astimezone(UTC) - self.start.astimezone(UTC)).total_seconds()

    def clock(self, instant: int) -> Civil:
        """Return the local clock, right for at least 360 days before and after an instant in milliseconds."""
        first_day, begun = _start(self.start)
        day = first_day + (instant + begun) // DAY
        latest = date(_LAST_YEAR, 1, 1).toordinal()
        return _civil(self.start, self.zone, date.fromordinal(max(1, min(day, latest))).year)


@lru_cache(maxsize=4096)
def _days(place: Place, year: int) -> tuple[Day, ...]:
    """Return the local days of a year, without one that the calendar skips."""
    first, last = date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()
    clock = place.clock(to_ms(place.seconds(datetime(year, 7, 1))))
    midnights = each_to_seconds(clock.instant(clock.midnight(np.arange(first, last + 1)))).tolist()
    return tuple(
        Day(date.fromordinal(number), start, end)
        for number, (start, end) in enumerate(pairwise(midnights), first)
        if start < end
    )
