"""Habits: keyed, the same from wherever they are looked at, and with the curves that their parameters say."""

from datetime import timedelta
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsim.availability import AvailabilityModel, Place, available_at, between, conditions, intervals
from fedsim.availability.habits.together import HabitsAvailability
from fedsim.common.instants import each_to_seconds
from fedsim.common.keyed import Purpose, stream
from fedsim.population.sources import propensity
from fedsim.scenario.habits import Habits
from tests.availability.cases import DAY, DRAWS, HOUR, habits, instants, pieces, place, share, whole
from tests.availability.reference import shares

PLACES = [
    place(),
    place("2026-03-06T17:45:30.25-05:00", "America/New_York"),
    place("2026-10-30T00:00:00+00:00", "America/New_York"),
    place("2026-10-23T12:00:00+02:00", "Europe/Berlin"),
    place("2026-01-01T00:00:00+00:00", "Asia/Kolkata"),
]
KINDS = [
    habits(),
    habits("charging"),
    habits("network"),
    habits("idle"),
    habits("idle", "charging"),
    habits(charging={"night": {"plug_in": "02:30"}, "spread": 0}, idle={"settle": "0s"}),
    habits("network", network={"home": 1, "weekday": {"chance": 1, "leave": "02:15", "back": "23:00"}}),
]
kinds = st.sampled_from(KINDS)
places = st.sampled_from(PLACES)
clients = st.integers(0, 10**9)


@given(kinds, places, clients)
def test_intervals_are_disjoint_and_in_order(kind: AvailabilityModel, where: Place, client: int) -> None:
    pairs = list(islice(pieces(kind, client, where), 60))
    assert pairs[0][0] >= 0.0
    assert all(start <= end for start, end in pairs)
    assert all(before[1] <= after[0] for before, after in pairwise(pairs))
    found = whole(kind, client, 0.0, 40 * DAY, where)
    assert all(start < end for start, end in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert whole(kind, client, 0.0, 40 * DAY, where) == found


@given(kinds, places, clients, instants(60 * 86_400_000), instants(40 * 86_400_000))
def test_what_happens_does_not_depend_on_when_one_looks(
    kind: AvailabilityModel, where: Place, client: int, since: int, length: int
) -> None:
    until = since + max(length, 1)
    from_the_start = whole(kind, client, since / 1000, until / 1000, where)
    assert isinstance(kind, HabitsAvailability)
    (batch,) = kind.batches([(where, np.array([client]))], DRAWS)
    _, *times = batch.spells(np.array([client]), since, until)
    starts, ends = (each_to_seconds(each).tolist() for each in times)
    assert list(zip(starts, ends, strict=True)) == from_the_start


@given(kinds, places, clients, st.integers(0, 400), st.booleans(), instants(100 * 86_400_000))
def test_one_lookup_for_many_devices_agrees_with_their_intervals(
    kind: AvailabilityModel, where: Place, client: int, edge: int, end: bool, instant: int
) -> None:
    """At any instant, and at the very start (available) and end (not available) of an interval."""
    some = np.array([client + 1, client, client + 2, client + 3])
    found = whole(kind, client, 0.0, 30 * DAY, where)
    moments = [instant / 1000, *(found[edge % len(found)][end : end + 1] if found else ())]
    for moment in moments:
        expected = [bool(whole(kind, int(each), moment, moment + 0.001, where)) for each in some]
        assert available_at(kind, some, moment, where, DRAWS).tolist() == expected
    if found:
        start, last = found[edge % len(found)]
        assert available_at(kind, some[1:2], start, where, DRAWS).all()
        assert last == 30 * DAY or not available_at(kind, some[1:2], last, where, DRAWS).any()


@pytest.mark.long
@given(places, clients)
def test_intervals_are_where_all_conditions_hold(where: Place, client: int) -> None:
    parts = conditions(habits(), client, where, DRAWS)
    assert list(parts) == ["charging", "network", "idle"]
    alone = {name: whole(habits(name), client, 0.0, 20 * DAY, where) for name in parts}
    assert {name: between(part, 0.0, 20 * DAY) for name, part in parts.items()} == alone
    edges = sorted({0.0, 20 * DAY, *(edge for part in alone.values() for pair in part for edge in pair)})
    both = [pair for pair in pairwise(edges) if all(_covered(part, pair[0]) for part in alone.values())]
    assert between(iter(both), 0.0, 20 * DAY) == whole(habits(), client, 0.0, 20 * DAY, where)


def _covered(pairs: list[tuple[float, float]], instant: float) -> bool:
    return any(start <= instant < end for start, end in pairs)


@settings(max_examples=60)
@given(kinds, places, clients, st.integers(0, 20 * 86_400))
def test_the_world_has_been_running_before_the_scenario_starts(
    kind: AvailabilityModel, where: Place, client: int, later: int
) -> None:
    """A scenario that starts later sees the same days: what began before its start is running, nothing begins anew."""
    shifted = Place(where.start + timedelta(seconds=later), where.zone)
    before = whole(kind, client, later, later + 15 * DAY, where)
    after = whole(kind, client, 0.0, 15 * DAY, shifted)
    np.testing.assert_allclose(np.array(before) - later, np.array(after), atol=1e-5)


def test_devices_are_strangers_and_seeds_are_worlds() -> None:
    found = [str(whole(habits("charging"), client, 0.0, 10 * DAY)) for client in range(50)]
    assert len(set(found)) == 50
    other = stream(6, 0, Purpose.AVAILABILITY)
    assert between(intervals(habits(), 1, place(), other), 0.0, 10 * DAY) != whole(habits(), 1, 0.0, 10 * DAY)


def test_most_devices_are_available_at_night_and_few_by_day() -> None:
    """The curve of the defaults, Monday to Sunday: above half from 1 to 4, below a tenth from 10 to 19."""
    for day in range(7):
        curve = [share(habits(), 2000, day * DAY + hour * HOUR) for hour in range(24)]
        assert min(curve[2:5]) > 0.5
        assert max(curve[11:20]) < 0.1
        assert min(curve[11:20]) > 0.005


@pytest.mark.parametrize("weekday", [2, pytest.param(5, marks=pytest.mark.long)], ids=["Wednesday", "Saturday"])
def test_hourly_curves_against_an_independent_simulation(weekday: int) -> None:
    _compare(weekday, 3_700, 3_600)


@pytest.mark.long
@pytest.mark.parametrize(
    "weekday", [pytest.param(0, marks=pytest.mark.campaign), 4, 6], ids=["Monday", "Friday", "Sunday"]
)
def test_hourly_curves_closely(weekday: int) -> None:
    _compare(weekday, 22_000, 21_500)


def _compare(weekday: int, persons: int, devices: int) -> None:
    """Two samples' shares at 24 hours of each condition and of all: z below 4.5, false alarm 7e-4 for all 96.

    A person and a device take about as long, and the error is smallest when there are as many of both.
    """
    expected = shares(Habits(kind="habits"), weekday, persons, np.random.default_rng(weekday))
    for name, theirs in expected.items():
        kind = habits() if name == "all" else habits(name)
        ours = np.array([share(kind, devices, (weekday + 7) * DAY + (hour + 0.5) * HOUR) for hour in range(24)])
        pooled = (persons * theirs + devices * ours) / (persons + devices)
        error = np.sqrt(pooled * (1 - pooled) * (1 / persons + 1 / devices))
        assert np.abs(ours - theirs).max(where=error == 0, initial=0.0) == 0
        assert (np.abs(ours - theirs) <= 4.5 * error).all(), (name, (ours - theirs) / error)


PUNCTUAL: dict[str, Any] = {
    "night": {
        "chance": 1,
        "between_persons": "0s",
        "between_days": "0s",
        "length": "6h",
        "length_weekend": "6h",
        "length_between_persons": "0s",
        "length_between_days": "0s",
    },
    "top_up": {"per_day": 0, "per_day_weekend": 0},
}


def punctual(clock: str) -> AvailabilityModel:
    night = {**PUNCTUAL["night"], "plug_in": clock, "plug_in_weekend": clock}
    return habits("charging", charging={**PUNCTUAL, "night": night})


@pytest.mark.parametrize(
    ("zone", "start", "clock", "gaps"),
    [
        ("America/New_York", "2026-03-06T12:00:00-05:00", "22:30", [24, 23, 24]),
        ("America/New_York", "2026-10-30T12:00:00-04:00", "22:30", [24, 25, 24]),
        ("Europe/Berlin", "2026-03-27T12:00:00+01:00", "22:30", [24, 23, 24]),
        ("Europe/Berlin", "2026-10-23T12:00:00+02:00", "22:30", [24, 25, 24]),
        ("America/New_York", "2026-03-06T12:00:00-05:00", "02:30", [24, 23, 24]),  # skipped: at 03:30 instead
        ("America/New_York", "2026-10-30T12:00:00-04:00", "01:30", [24, 25, 24]),  # repeated: at the first
        ("America/New_York", "2026-03-06T12:00:00-05:00", "03:30", [23, 24, 24]),  # in the hour after the change
        ("America/New_York", "2026-10-30T12:00:00-04:00", "02:30", [25, 24, 24]),
        ("Asia/Kolkata", "2026-03-06T12:00:00+05:30", "22:30", [24, 24, 24]),
    ],
)
def test_plug_in_times_are_clock_times(zone: str, start: str, clock: str, gaps: list[int]) -> None:
    found = whole(punctual(clock), 0, 0.0, 5 * DAY, place(start, zone))
    assert all(end - begin == 6 * HOUR for begin, end in found[:4])  # lengths are elapsed time
    assert found[0][0] == (10.5 * HOUR if clock == "22:30" else (12 + float(clock[:2]) + 0.5) * HOUR)
    hours = [(after[0] - before[0]) / HOUR for before, after in pairwise(found)][:3]
    assert hours == gaps


def test_who_never_is_and_who_always_is() -> None:
    """Neither hangs a search: pieces come in time order, empty or touching, and make one interval or none."""
    never = habits(charging={"night": {"chance": 0}, "top_up": {"per_day": 0, "per_day_weekend": 0}})
    assert all(start == end for start, end in islice(pieces(never, 0), 5))
    assert whole(never, 0, 0.0, 1000 * DAY) == []
    home = {"home": 1, "weekday": {"chance": 0, "leave": "8:00", "back": "17:00"}, "drop_outs": {"per_hour": 0}}
    home["weekend"] = home["weekday"]
    always = habits("network", network=home)
    assert whole(always, 0, 5.0, 1000 * DAY) == [(5.0, 1000 * DAY)]
    assert share(always, 100, 17 * DAY) == 1.0
    assert share(never, 100, 17 * DAY) == 0.0


def test_propensity_is_normal_and_says_how_available_a_device_is() -> None:
    """Kolmogorov-Smirnov with false alarm 1e-4; rank correlation with the time available in four weeks."""
    score = propensity(np.arange(20_000), DRAWS)
    assert stats.kstest(score, "norm").pvalue > 1e-4
    for kind in (habits(), habits("charging"), habits("idle"), habits("network")):
        time = np.mean(
            [available_at(kind, np.arange(3000), hour * HOUR, place(), DRAWS) for hour in range(0, 672, 7)], 0
        )
        assert stats.spearmanr(time, score[:3000]).statistic > 0.25


def test_persons_differ_around_the_same_mean() -> None:
    """Nights charged in 200 nights: their mean stays the chance, their spread grows; false alarm 1e-4 each."""
    for spread in (0.0, 1.5):
        night = {**PUNCTUAL["night"], "chance": 0.6}
        kind = habits("charging", charging={"night": night, "top_up": PUNCTUAL["top_up"], "spread": spread})
        middles = [day * DAY + 25.5 * HOUR for day in range(200)]
        nights = np.mean([available_at(kind, np.arange(1500), middle, place(), DRAWS) for middle in middles], axis=0)
        assert stats.ttest_1samp(nights, 0.6).pvalue > 1e-4
        assert (nights.std() > 0.2) == (spread > 0)
