"""A trace replayed: equal to a brute-force scan of the rows, on random and on nasty traces."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fedsim.availability import Place, available_at, between, conditions, intervals
from fedsim.availability.model import in_seconds
from fedsim.availability.trace import (
    CONDITIONS,
    Pattern,
    RecordedAvailability,
    TraceError,
    TraceRows,
    build_pattern,
    clean,
)
from fedsim.availability.trace.pattern import Repeat
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import REASON_OF

DAY, WEEK = 86_400, 604_800
EPOCH = datetime(1970, 1, 1)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
DRAWS = stream(5, 0, Purpose.AVAILABILITY)
Row = tuple[int, float, float]


def rows(written: Sequence[Row], devices: int, codes: Sequence[int] | None = None) -> TraceRows:
    columns = np.array(written, dtype=np.float64).reshape(-1, 3)
    return TraceRows(
        names=tuple(f"d{number}" for number in range(devices)),
        devices=columns[:, 0].astype(np.int64),
        starts=columns[:, 1],
        ends=columns[:, 2],
        conditions=np.array(codes or [0] * len(columns), dtype=np.int8),
    )


def civil(instant: datetime, zone: tzinfo) -> float:
    """Civil seconds since 1970-01-01 00:00."""
    return (instant.astimezone(zone).replace(tzinfo=None) - EPOCH).total_seconds()


def first_period(seconds: float, repeat: str) -> float:
    """Civil midnight, or midnight of Monday, at or before a civil time."""
    day = EPOCH + timedelta(days=seconds // DAY)
    if repeat == "week":
        day -= timedelta(days=day.weekday())
    return (day - EPOCH).total_seconds()


def scan(written: Sequence[Row], device: int, base: datetime, place: Place, repeat: str, instant: float) -> bool:
    """Say whether any row covers an instant, lap by lap; times are whole numbers of eighths of a second."""
    good = [(start, end) for _, start, end in written if end > start]
    begin, end = min(start for start, _ in good), max(end for _, end in good)
    base_civil = civil(base, base.tzinfo or UTC)
    period = WEEK if repeat == "week" else DAY
    laps = math.ceil((end - begin) / period) * period
    of_trace = first_period(base_civil + begin, repeat)
    of_start = first_period(civil(place.start, place.zone), repeat)
    now = civil(place.start + timedelta(seconds=instant), place.zone) - of_start + of_trace - base_civil
    for number, start, stop in written:
        if number == device:
            for lap in range(-3, 40) if repeat != "none" else [0]:
                if start <= now - lap * laps < stop:
                    return True
    return False


eighths = st.builds(lambda day, rest: day * DAY + rest / 8, st.integers(-5, 24), st.integers(0, 8 * DAY - 1))
# Few distinct times make touching, nested, equal and empty intervals the rule.
near = st.integers(0, 12).map(lambda number: number * DAY / 4)
times = st.one_of(eighths, near)
row = st.tuples(st.integers(0, 2), times, times)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
starts = st.datetimes(datetime(2025, 10, 1), datetime(2026, 5, 1)).map(lambda t: t.replace(microsecond=0, tzinfo=UTC))
repeats = st.sampled_from(["week", "day", "none"])
bases = st.sampled_from(
    [datetime(2020, 1, 31, tzinfo=UTC), datetime(2020, 2, 1, 7, 30, tzinfo=timezone(timedelta(hours=8)))]
)


def replayed(written: Sequence[Row], base: datetime, repeat: Repeat, devices: int = 3) -> RecordedAvailability:
    try:
        trace = clean(rows(written, devices), keep_empty=True)
    except TraceError:
        assume(False)
        raise
    return RecordedAvailability(build_pattern(trace, base, repeat=repeat, keep_empty=True), "in_order")


@given(st.lists(row, min_size=1, max_size=12), bases, zones, starts, repeats, st.lists(eighths, max_size=8))
@example([(0, 0.0, DAY), (0, DAY, 2 * DAY), (0, 2 * DAY, 7 * DAY)], MONDAY, "UTC", MONDAY, "week", [0.0])
@example([(0, 6.5 * DAY, 7.5 * DAY), (1, 0.0, 0.125)], MONDAY, "Europe/Berlin", MONDAY, "week", [])
@example([(0, 0.0, 0.125), (0, DAY - 0.125, DAY)], MONDAY, "UTC", MONDAY, "day", [])
def test_lookups_equal_a_brute_force_scan(
    written: list[Row], base: datetime, zone: str, start: datetime, repeat: Repeat, instants: list[float]
) -> None:
    """At random instants, and at and just beside the boundaries of every interval that is found."""
    place = Place(start, ZoneInfo(zone))
    replay = replayed(written, base, repeat)
    clients = np.arange(3)
    found = [between(intervals(replay, client, place, DRAWS), 0.0, 20.0 * DAY) for client in range(3)]
    edges = [edge for each in found for pair in islice(each, 6) for edge in pair]
    for instant in [abs(instant) for instant in instants] + [e + d for e in edges for d in (-0.125, 0, 0.125)]:
        if not 0 <= instant < 20 * DAY:
            continue
        expected = [scan(written, client, base, place, repeat, instant) for client in range(3)]
        assert available_at(replay, clients, instant, place, DRAWS).tolist() == expected
        assert [any(s <= instant < e for s, e in each) for each in found] == expected


floats = st.floats(0, 30 * DAY)
fractions = st.integers(0, 60_000).map(lambda number: number / 10_000)  # tenths of a millisecond


def exact(replay: RecordedAvailability, client: int, place: Place, until: int) -> list[tuple[float, float]]:
    """Return the whole intervals of a client in milliseconds."""
    return between(replay.pieces(client, place, DRAWS), 0, until)


@given(
    st.lists(st.tuples(st.integers(0, 1), floats | fractions, floats | fractions), min_size=1, max_size=20),
    zones,
    repeats,
)
@example([(0, 1e-7, float(DAY))], "UTC", "day")
@example([(0, 0.0, DAY - 1e-6), (1, 0.0, 9e-6)], "Europe/Berlin", "day")
@example([(0, 12.3456, 12.3461), (0, 12.3462, 12.3467)], "UTC", "none")
@example([(0, 5.0001, 5.0004), (1, 0.0, 5.0)], "UTC", "week")
def test_intervals_are_disjoint_in_order_and_agree_with_the_mask(written: list[Row], zone: str, repeat: Repeat) -> None:
    """With times of any digits, laps later too."""
    place = Place(datetime(2026, 3, 1, 4, 5, 6, 789, tzinfo=UTC), ZoneInfo(zone))
    replay = replayed(written, datetime(2020, 1, 31, tzinfo=UTC), repeat, 2)
    for client in range(2):
        raw = list(islice(replay.pieces(client, place, DRAWS), 60))
        assert all(isinstance(time, int) and time >= 0 for pair in raw for time in pair)
        assert all(before[1] <= after[0] for before, after in pairwise(raw))
        assert list(islice(intervals(replay, client, place, DRAWS), 60)) == list(in_seconds(iter(raw)))
        last = raw[-1][0] if raw else 0
        own = exact(replay, client, place, last)
        assert all(before[1] < after[0] for before, after in pairwise(own))
        for start, end in own[:20]:
            for instant in (start, end - 1, end, start - 1):
                if 0 <= instant < last:
                    expected = any(s <= instant < e for s, e in own)
                    found = available_at(replay, np.array([client]), instant / 1000, place, DRAWS)
                    assert found.tolist() == [expected]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([(12.3456, 20.0)], [(12_346, 20_000)]),
        ([(0.0002, 12.3456), (12.3457, 20.0)], [(0, 20_000)]),  # a gap of a tenth of a millisecond
        ([(1.0, 2.0), (2.0006, 3.0004)], [(1000, 2000), (2001, 3000)]),
        ([(1.0, 2.0), (5.0001, 5.0004)], [(1000, 2000)]),
        ([(0.0, 86_399.9998), (86_400.0, 86_410.0)], [(0, 86_410_000)]),
    ],
)
def test_times_are_rounded_to_milliseconds_once(
    written: list[tuple[float, float]], expected: list[tuple[int, int]]
) -> None:
    place = Place(MONDAY, ZoneInfo("UTC"))
    replay = replayed([(0, *each) for each in written], MONDAY, "none", 1)
    assert exact(replay, 0, place, 2 * 1000 * DAY) == expected
    weekly = replayed([(0, *each) for each in written], MONDAY, "week", 1)
    later = [(start + 3 * 1000 * WEEK, end + 3 * 1000 * WEEK) for start, end in expected]
    assert between(weekly.pieces(0, place, DRAWS), 3 * 1000 * WEEK, 4 * 1000 * WEEK) == later


def test_a_day_without_a_gap_goes_on_over_its_seam() -> None:
    replay = replayed([(0, 0.0002, DAY - 0.0003)], MONDAY, "day", 1)
    assert list(replay.pieces(0, Place(MONDAY, ZoneInfo("Asia/Kolkata")), DRAWS)) == [(0, FOREVER)]


@pytest.mark.parametrize("micros", [0, 500, 400_600, 999_999])
def test_a_run_may_begin_between_two_milliseconds(micros: int) -> None:
    place = Place(MONDAY + timedelta(microseconds=micros), ZoneInfo("America/New_York"))
    replay = replayed([(0, 3600.0, 7200.0)], MONDAY, "day", 1)
    (start, end), *_ = exact(replay, 0, place, 1000 * DAY)
    assert (start, end) == (6 * 3_600_000 - round(micros / 1000), 7 * 3_600_000 - round(micros / 1000))


def test_a_device_that_is_always_there_has_one_interval_without_end() -> None:
    """Its laps touch, so that no session is dropped at their ends; other gaps stay."""
    written = [(0, 0.0, 3.0 * DAY), (0, 3.0 * DAY, 7.0 * DAY), (1, 0.0, 6.0 * DAY)]
    replay = replayed(written, MONDAY, "week", 2)
    place = Place(MONDAY, ZoneInfo("Europe/Berlin"))
    assert list(intervals(replay, 0, place, DRAWS)) == [(0.0, math.inf)]
    first, second = between(intervals(replay, 1, place, DRAWS), 0.0, 14.0 * DAY)[:2]
    assert (first, second) == ((0.0, 6 * DAY - 3600.0), (7 * DAY - 3600.0, 13 * DAY - 3600.0))


def elapsed_minutes(hours: int) -> st.SearchStrategy[list[Row]]:
    minutes = st.integers(0, hours * 60).map(lambda minute: minute * 60.0)
    return st.lists(st.tuples(st.just(0), minutes, minutes), min_size=1, max_size=6)


@given(
    st.sampled_from([datetime(2020, 3, 28, 23, tzinfo=UTC), datetime(2020, 10, 24, 22, tzinfo=UTC)]), elapsed_minutes(6)
)
def test_a_trace_recorded_across_daylight_saving(base: datetime, written: list[Row]) -> None:
    """Minute by minute: a civil minute holds where any minute of that name did, or the skipped hour was spanned."""
    zone = ZoneInfo("Europe/Berlin")
    try:
        trace = clean(rows(written, 1))
    except TraceError:
        assume(False)
    spans = build_pattern(trace, base, zone, "none").spans
    held = {m for _, start, end in written for m in range(int(start // 60), int(end // 60))}
    midnight = first_period(civil(base + timedelta(minutes=min(held)), zone), "none")
    expected = {int(civil(base + timedelta(minutes=m), zone) - midnight) // 60 for m in held}
    for minute in held & {m - 1 for m in held}:
        here, there = (civil(base + timedelta(minutes=m), zone) - midnight for m in (minute, minute + 1))
        expected |= set(range(int(here) // 60, int(there) // 60))
    found = {m for s, e in zip(*spans.of(0), strict=True) for m in range(s // 60_000, e // 60_000)}
    assert found == expected


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 1), near, near), min_size=2, max_size=24), st.data())
def test_required_conditions_hold_together(written: list[Row], data: st.DataObject) -> None:
    """Available is where every required condition is, and each condition can be asked on its own."""
    codes = data.draw(st.lists(st.integers(1, 3), min_size=len(written), max_size=len(written)))
    try:
        pattern = build_pattern(clean(rows(written, 2, codes)), MONDAY, repeat="week", keep_empty=True)
    except TraceError:
        assume(False)
        raise
    replay, place = RecordedAvailability(pattern, "in_order"), Place(MONDAY, ZoneInfo("UTC"))
    needed = {CONDITIONS[code] for (_, start, end), code in zip(written, codes, strict=True) if end > start}
    assert set(pattern.conditions) == needed
    (batch,) = replay.batches([(place, np.arange(2))], DRAWS)
    for client in range(2):
        parts = {
            name: between(part, 0.0, 14.0 * DAY) for name, part in conditions(replay, client, place, DRAWS).items()
        }
        for instant in np.arange(0.0, 14.0 * DAY, DAY / 8):
            holding = {name: any(s <= instant < e for s, e in part) for name, part in parts.items()}
            assert batch.at(np.array([client]), int(instant * 1000)).tolist() == [all(holding.values())]
            lacking = sum(int(REASON_OF[name]) for name, holds in holding.items() if not holds)
            assert batch.reasons(np.array([client]), int(instant * 1000)).tolist() == [lacking]


def pattern_of(devices: int) -> Pattern:
    written = [(number, 0.0, 100.0 + number) for number in range(devices)]
    return build_pattern(clean(rows(written, devices)), MONDAY)


def test_with_replacement_depends_on_the_client_alone() -> None:
    """Neither on the group's size nor on its place in the population."""
    one, two = RecordedAvailability(pattern_of(40)), RecordedAvailability(pattern_of(40), first=7, taken=3)
    many = one.assigned(np.arange(4000), DRAWS)
    assert (two.assigned(np.arange(100), DRAWS) == many[:100]).all()
    counts = np.bincount(many, minlength=40)
    assert counts.min() > 50
    assert len(np.unique(many[:40])) < 40


def test_without_replacement_deals_every_device_once() -> None:
    first = RecordedAvailability(pattern_of(40), "without_replacement")
    second = RecordedAvailability(pattern_of(40), "without_replacement", first=100, taken=25)
    dealt = [*first.assigned(np.arange(25), DRAWS), *second.assigned(np.arange(100, 115), DRAWS)]
    assert sorted(dealt) == list(range(40))
    assert dealt != sorted(dealt)
    assert RecordedAvailability(pattern_of(9), "in_order", 5, 2).assigned(np.arange(5, 9), DRAWS).tolist() == [
        2,
        3,
        4,
        5,
    ]


def test_the_part_that_is_used_is_cut_out() -> None:
    trace = clean(rows([(0, 0.0, 10.0 * DAY), (1, 8.0 * DAY, 9.0 * DAY)], 2))
    whole = build_pattern(trace, MONDAY)
    part = build_pattern(trace, MONDAY, until=7.0 * DAY)
    assert (whole.lap, part.lap, part.covered) == (2 * WEEK, WEEK, WEEK)
    assert (part.names, part.never) == (("d0",), 1)
    with pytest.raises(TraceError, match="before the part that is used begins"):
        build_pattern(trace, MONDAY, since=11.0 * DAY)
    with pytest.raises(TraceError, match="'network'; it has available"):
        build_pattern(trace, MONDAY, require=["network"])
