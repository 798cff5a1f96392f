"""Civil time: offsets of time zones from UTC, and from simulated seconds to local clock time and back.

Clock time is counted in seconds without regard to offsets from UTC ("wall" seconds: every day has 86,400), since
midnight of the UTC day in which the run starts. A clock time that a spring change skips, and one that an autumn
change repeats, are both read with the offset in force before the change (PEP 495, fold=0): 02:30 in a night that goes
from 02:00 to 03:00 is the instant called 03:30, and 01:30 in a night that goes back from 02:00 to 01:00 is the first.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats, Ints

DAY = 86_400.0
_WHOLE_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_CHANGE, _LAST_CHANGE = 1700, 3200  # years in which clocks are changed
_SEVERAL = 64  # so many are looked up faster by the first and the last of them
_FIRST_YEAR, _LAST_YEAR = 2, 9997  # datetime ends soon after


@dataclass(frozen=True, eq=False)
class Civil:
    """The clock of one zone over some years.

    Attributes
    ----------
    first_day
        Ordinal (1 is 0001-01-01) of the UTC day in which the run starts.
    begun
        Seconds of that day that are over when the run starts.
    changes
        (k,) instants of simulated time at which the offset changes.
    offsets
        (k + 1,) seconds to add to UTC, before, between and after the changes.
    walls
        (k,) clock times from which the later offset is used.
    """

    first_day: int
    begun: float
    changes: Floats
    offsets: Floats
    walls: Floats

    def wall(self, instants: ArrayLike) -> Floats:
        """Return the clock times of instants of simulated time."""
        instants = np.asarray(instants, dtype=np.float64)
        walls: Floats = instants + self.begun + self._offsets(self.changes, instants)
        return walls

    def instant(self, walls: Floats) -> Floats:
        """Return the instants of simulated time at clock times."""
        instants: Floats = walls - self._offsets(self.walls, walls) - self.begun
        return instants

    def _offsets(self, changes: Floats, times: Floats) -> Floats | float:
        """Return the offset at each time; one for all where it does not change between them."""
        if not len(changes):
            return float(self.offsets[0])
        if times.size > _SEVERAL:
            first, last = changes.searchsorted((times.min(), times.max()), side="right")
            if first == last:
                return float(self.offsets[first])
        each: Floats = self.offsets[changes.searchsorted(times, side="right")]
        return each

    def day(self, instant: float) -> int:
        """Return the ordinal of the local day of an instant."""
        return self.day_and_time(instant)[0]

    def day_and_time(self, instant: float) -> tuple[int, float]:
        """Return the ordinal of the local day of an instant, and the clock time in seconds after its midnight."""
        changes, offsets = self._pieces
        wall = instant + self.begun + offsets[bisect_right(changes, instant)]  # an array of one would take much longer
        days = math.floor(wall / DAY)
        return self.first_day + days, wall - days * DAY

    @cached_property
    def _pieces(self) -> tuple[list[float], list[float]]:
        """Return the changes and the offsets as lists."""
        return self.changes.tolist(), self.offsets.tolist()

    def midnight(self, days: Ints) -> Floats:
        """Return the clock times at which local days begin."""
        return np.multiply(days - self.first_day, DAY, dtype=np.float64)


@lru_cache(maxsize=256)
def beginning(clock: Civil, day: int, after: float = 0.0) -> float:
    """Return the instant so many seconds of the clock after the midnight at which a local day, an ordinal, begins."""
    return float(clock.instant(clock.midnight(np.array([day])) + after)[0])


def civil(start: datetime, zone: ZoneInfo, instant: float) -> Civil:
    """Return the clock of a zone, right for at least 360 days before and after an instant of simulated time.

    Parameters
    ----------
    start
        The instant of simulated time 0.
    zone
        Whose clock it is.
    instant
        Seconds of simulated time.
    """
    first_day, begun = _start(start)
    day = first_day + math.floor((instant + begun) / DAY)
    latest = date(_LAST_YEAR, 1, 1).toordinal()
    return _civil(start, zone, date.fromordinal(max(1, min(day, latest))).year)


@lru_cache(maxsize=4096)
def _civil(start: datetime, zone: ZoneInfo, year: int) -> Civil:
    first_day, begun = _start(start)
    years = range(max(year - 1, _FIRST_YEAR), min(year + 1, _LAST_YEAR) + 1)
    found = [change for each in years for change in changes_of(zone, each)]
    epochs = np.array([_EPOCH.toordinal() * DAY + epoch for epoch, _ in found], dtype=np.float64)
    changes = epochs - first_day * DAY - begun
    before = _offset(zone, _seconds_of(years[0]))
    offsets = np.array([before, *(after for _, after in found)], dtype=np.float64)
    return Civil(first_day, begun, changes, offsets, changes + begun + np.maximum(offsets[:-1], offsets[1:]))


@lru_cache(maxsize=4096)
def _start(start: datetime) -> tuple[int, float]:
    """Return the ordinal of the UTC day of the start, and the seconds of it that are over."""
    midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight.toordinal(), (start - midnight).total_seconds()


def offset_at(zone: tzinfo, epoch: float) -> float:
    """Return the offset from UTC in seconds at an instant, given in seconds since 1970."""
    if isinstance(zone, timezone):
        return zone.utcoffset(None).total_seconds()
    return float(_offset(zone, min(max(epoch, _seconds_of(_FIRST_CHANGE)), _seconds_of(_LAST_CHANGE))))


def offset_pieces(zone: tzinfo, since: float) -> Iterator[tuple[float, float, float]]:
    """Yield (from, until, offset) in seconds since 1970, in order and without gaps, the first from `since`.

    The last one goes on for ever: clocks are not changed after the year 3200.
    """
    begin, offset = since, offset_at(zone, since)
    if not isinstance(zone, timezone):
        known = min(max(since, _seconds_of(_FIRST_CHANGE)), _seconds_of(_LAST_CHANGE))
        first = (_EPOCH + timedelta(seconds=known)).year
        for year in range(first, _LAST_CHANGE):
            for instant, after in changes_of(zone, year):
                if instant > begin:
                    yield begin, float(instant), offset
                    begin, offset = float(instant), float(after)
    yield begin, math.inf, offset


@lru_cache(maxsize=4096)
def changes_of(zone: tzinfo, year: int) -> tuple[tuple[int, int], ...]:
    """Return (seconds since 1970, offset from then on) for every change of the offset in a year of UTC.

    The offset is looked at once a day, and the instant of a change is found by bisection to the second.
    """
    found = []
    days = range(_seconds_of(year), _seconds_of(year + 1) + 1, _WHOLE_DAY)
    before = _offset(zone, days[0])
    for day in days[1:]:
        after = _offset(zone, day)
        if after != before:
            low, high = day - _WHOLE_DAY, day
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(zone, middle) == after else (middle, high)
            found.append((high, after))
        before = after
    return tuple(found)


def _seconds_of(year: int) -> int:
    """Return the seconds from 1970 to the beginning of a year of UTC."""
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).days * _WHOLE_DAY


def _offset(zone: tzinfo, epoch: float) -> int:
    offset = (_EPOCH + timedelta(seconds=math.floor(epoch))).astimezone(zone).utcoffset() or timedelta()
    return int(offset.total_seconds())
