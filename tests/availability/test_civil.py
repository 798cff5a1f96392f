"""Civil time against the standard library, in zones with every kind of oddity."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability import Place
from fedsim.common.instants import DAY, HOUR
from tests.availability.cases import instants, place

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour of daylight saving
    "Africa/Casablanca",  # two changes around each Ramadan
    "Pacific/Apia",  # had no 30th of December 2011
    "America/St_Johns",
]
zones = st.sampled_from(ZONES).map(ZoneInfo)
MS = timedelta(milliseconds=1)
starts = st.datetimes(datetime(1975, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
starts = starts.map(lambda start: start.replace(microsecond=start.microsecond // 1000 * 1000))


@given(starts, zones, instants(40 * 365 * DAY))
def test_clock_time_is_that_of_the_standard_library(start: datetime, zone: ZoneInfo, instant: int) -> None:
    clock = Place(start, zone).clock(instant)
    local = (start + instant * MS).astimezone(zone).replace(tzinfo=None)
    midnight = datetime.fromordinal(clock.first_day)
    assert int(clock.wall(instant)) == (local - midnight) // MS
    assert clock.day(instant) == local.toordinal()


@given(starts, zones, instants(40 * 365 * DAY))
def test_instants_of_clock_times_follow_fold_0(start: datetime, zone: ZoneInfo, ahead: int) -> None:
    """Skipped and repeated clock times included: the standard library reads them with the offset before, too."""
    local = (start + ahead * MS).replace(tzinfo=None)
    clock = Place(start, zone).clock(ahead)
    wall = (local - datetime.fromordinal(clock.first_day)) // MS
    assert clock.instant(np.array([wall])).tolist() == [(local.replace(tzinfo=zone).astimezone(UTC) - start) // MS]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Europe/Berlin", "2026-07-01", 24),
        ("Asia/Kolkata", "2026-03-08", 24),
    ],
)
def test_days_have_their_hours(zone: str, day: str, hours: float) -> None:
    clock = place("2026-01-05T13:30:00+01:00", zone).clock(0)
    days = np.array([datetime.fromisoformat(day).toordinal()])
    assert clock.instant(clock.midnight(days + 1)) - clock.instant(clock.midnight(days)) == hours * HOUR


@pytest.mark.parametrize(
    ("local", "utc"),
    [
        ("2026-03-08T01:59:59", "2026-03-08T06:59:59+00:00"),
        ("2026-03-08T02:30:00", "2026-03-08T07:30:00+00:00"),  # skipped: 03:30 by the clock on the wall
        ("2026-03-08T03:00:00", "2026-03-08T07:00:00+00:00"),
        ("2026-11-01T01:30:00", "2026-11-01T05:30:00+00:00"),  # the first of two
        ("2026-11-01T02:00:00", "2026-11-01T07:00:00+00:00"),
    ],
)
def test_skipped_and_repeated_times_in_new_york(local: str, utc: str) -> None:
    start = datetime(2026, 1, 5, 12, tzinfo=UTC)
    clock = Place(start, ZoneInfo("America/New_York")).clock(0)
    wall = (datetime.fromisoformat(local) - datetime.fromordinal(clock.first_day)) // MS
    assert clock.instant(np.array([wall])) == (datetime.fromisoformat(utc) - start) // MS


@pytest.mark.parametrize("start", ["0001-02-01T00:00:00+00:00", "9998-12-30T00:00:00+00:00"])
def test_the_ends_of_the_calendar_are_no_obstacle(start: str) -> None:
    clock = place(start, "America/New_York").clock(1000 * 366 * DAY)
    assert clock.instant(clock.wall(np.array([7_000]))) == 7_000
