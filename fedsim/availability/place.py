"""Where a device lives: the instant at which simulated time is 0, the device's time zone, and its days."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability.civil import Civil, civil
from fedsim.common.instants import each_to_seconds, to_ms

_YEARS = 200  # of local days: more than anybody simulates, and few enough to look through in vain
_LAST_YEAR = 9996  # `datetime` ends soon after


class Day(NamedTuple):
    """One local day.

    Attributes
    ----------
    date
        In the calendar of the zone.
    start, end
        Seconds of simulated time, from one local midnight to the next: 23 or 25 hours where the clocks are changed.
    """

    date: date
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Place:
    """What turns simulated time into civil time.

    Attributes
    ----------
    start
        The instant of simulated time 0, with its zone.
    zone
        The device's time zone.
    """

    start: datetime
    zone: ZoneInfo

    def days(self) -> Iterator[Day]:
        """Yield the local days of two hundred years, from the one in which simulated time begins; see `Day`."""
        first = self.start.astimezone(self.zone).year
        for year in range(first, min(first + _YEARS, _LAST_YEAR)):
            yield from (day for day in _days(self, year) if day.end > 0.0)

    def seconds(self, local: datetime) -> float:
        """Return the instant of simulated time at which the local clock shows this date and time, given without a zone.

        Of a time that the clock shows twice it is the first; one that is skipped is read as if it were not.
        """
        return (local.replace(tzinfo=self.zone).astimezone(UTC) - self.start.astimezone(UTC)).total_seconds()

    def clock(self, instant: int) -> Civil:
        """Return the local clock, right for at least 360 days before and after an instant in milliseconds."""
        return civil(self.start, self.zone, instant)


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
