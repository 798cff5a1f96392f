"""Devices that were observed at different times: what the file says of it, shares within it, and laps of their own."""

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability import Place, available_at, between
from fedsim.availability.trace import RecordedAvailability, TraceError, TraceRows, build_pattern, clean, read_rows
from fedsim.common.keyed import Purpose, stream
from tests.availability.cases import instants
from tests.command import fedsim
from tests.conftest import Write

MONDAY = datetime(2020, 2, 3, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
DRAWS = stream(3, 0, Purpose.AVAILABILITY)
COLUMNS = "device,start_s,end_s,seen_from_s,seen_to_s,cycle_s\n"
PHONES = COLUMNS + (
    "ann,3600,7200,0,14400,86400\n"
    "ann,10800,14400,,,\n"
    "ben,90000,97200,86400,100800,\n"
    "cleo,,,0,14400,\n"  # observed, and never available
)


def written(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_a_file_says_when_devices_were_observed(tmp_path: Path) -> None:
    path = written(tmp_path, PHONES)
    rows = read_rows(path)
    nan = np.nan
    expected = [[0, 14_400, 86_400], [86_400, 100_800, nan], [0, 14_400, nan]]
    assert rows.seen is not None
    np.testing.assert_array_equal(rows.seen, expected)
    pl.read_csv(path).write_parquet(tmp_path / "t.parquet")
    again = read_rows(tmp_path / "t.parquet").seen
    assert again is not None
    np.testing.assert_array_equal(again, expected)


def test_shares_count_the_time_observed(tmp_path: Path) -> None:
    """4 of 12 hours; 4 of the 84 that the three would have from the first instant to the last."""
    path = written(tmp_path, PHONES)
    shown = fedsim("trace", "show", path, "--base", "2020-02-03T00:00:00Z")
    assert "available 33.3% of the time that they were observed" in shown.stdout
    assert "devices were observed for 4.0 h of 28.0 h in the median (4.0 to 4.0 h for 80 %)" in shown.stdout
    facts = json.loads(fedsim("trace", "show", path, "--base", "2020-02-03T00:00:00Z", "--json").stdout)
    assert facts["available"] == pytest.approx(4 / 12)
    assert facts["available_by_hour"][:4] == pytest.approx([0, 2 / 3, 1 / 3, 1 / 3])
    assert facts["available_by_hour"][4:] == [None] * 20
    bare = written(tmp_path, "device,start_s,end_s\na,0,10\nb,100000,100010\n")
    told = "time without a record counts as not available, unless seen_from_s and seen_to_s say"
    assert told in fedsim("trace", "show", bare, "--base", "2020-02-03T00:00:00Z").stdout


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("a,0,9,0,10,\na,20,25,0,30,\n", ":2:1: device 'a' has two values of seen_to_s; a device has one"),
        ("a,0,9,10,0,\n", ":2:1: device 'a': seen_from_s and seen_to_s must be in order, and within 100 years"),
        ("b,0,9,,,\na,0,9,,1e12,\n", ":3:1: device 'a': seen_from_s and seen_to_s must be in order"),
        ("a,0,9,,,5\n", ":2:1: device 'a': cycle_s must be at least 60 seconds"),
        ("a,0,9,early,,\n", ":2:7: seen_from_s must be a number of seconds, not 'early'"),
    ],
)
def test_mistakes_have_places(tmp_path: Path, rows: str, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_rows(written(tmp_path, COLUMNS + rows))
    assert complaint in str(caught.value)


def test_what_lies_beyond_is_cut_and_counted(tmp_path: Path) -> None:
    rows = read_rows(written(tmp_path, COLUMNS + "a,0,50,20,100,\na,200,300,,,\nb,0,9,,,\n"))
    trace = clean(rows)
    assert [times.tolist() for times in trace.spans["available"].of(0)] == [[20_000], [50_000]]
    assert "2 intervals reaching beyond when the device was observed, cut" in str(trace.report)
    with pytest.raises(TraceError, match="policy is strict: 2 intervals reaching beyond"):
        clean(rows, "strict")


def test_an_observation_that_begins_years_before_begins_with_the_first_interval() -> None:
    names = tuple(f"d{n}" for n in range(20))
    begins = np.arange(20, dtype=np.float64) * HOUR
    seen = np.column_stack([begins - HOUR, begins + 9 * HOUR, np.full(20, np.nan)])
    seen[3, 0] = -9e8
    rows = TraceRows(names, np.arange(20), begins, begins + 4 * HOUR, np.zeros(20, np.int8), seen=seen)
    pattern = build_pattern(clean(rows), MONDAY, repeat="none")
    assert pattern.covered == 29 * HOUR
    assert (pattern.seen.ends_s - pattern.seen.starts_s).tolist() == [10 * HOUR] * 3 + [9 * HOUR] + [10 * HOUR] * 16


whole = st.integers(0, 3 * 86_400)


@given(
    st.lists(st.tuples(st.integers(0, 2), whole, whole), min_size=1, max_size=10),
    st.lists(st.tuples(whole, st.integers(0, 90_000), st.integers(60, 200_000) | st.none()), min_size=3, max_size=3),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from([datetime(2026, 1, 6, 5, 30, tzinfo=UTC), datetime(2026, 3, 28, tzinfo=UTC)]),
    st.lists(instants(6 * 86_400_000 - 1), min_size=3, max_size=3),
)
def test_a_lap_for_each_device(
    intervals: list[tuple[int, int, int]],
    windows: list[tuple[int, int, int | None]],
    zone: str,
    start: datetime,
    instants: list[int],
) -> None:
    """As a remainder by the device's own lap says, however the batch is asked; and a lap of a day knows the hour."""
    columns = np.array(intervals, dtype=np.float64)
    seen = np.array([[first, first + length, np.nan if cycle is None else cycle] for first, length, cycle in windows])
    owners = columns[:, 0].astype(np.int64)
    rows = TraceRows(("a", "b", "c"), owners, columns[:, 1], columns[:, 2], np.zeros(len(columns), np.int8), seen=seen)
    try:
        pattern = build_pattern(clean(rows, keep_empty=True), MONDAY, repeat="device", keep_empty=True)
    except TraceError:
        return
    replay, place = RecordedAvailability(pattern, "in_order"), Place(start, ZoneInfo(zone))
    assert pattern.device_laps is not None
    laps = [max(60, cycle or length) for _, length, cycle in windows]
    until = 6 * 86_400_000
    found = [between(replay.pieces(device, place, DRAWS), 0, until) for device in range(3)]
    (batch,) = replay.batches([(place, np.arange(3))], DRAWS)
    spells = batch.spells(np.arange(3), 0, until)
    for instant in instants:
        local = datetime.fromtimestamp(start.timestamp() + instant / 1e3, ZoneInfo(zone)).replace(tzinfo=UTC)
        first = start.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC, hour=0, minute=0, second=0)
        opened = pattern.reference + pattern.begin - MONDAY.timestamp()  # when the part that is used begins
        now = (local - first).total_seconds() + opened // DAY * DAY
        expected = []
        for device, (begun, length, _) in enumerate(windows):
            good = [(max(s, begun), min(e, begun + length)) for d, s, e in intervals if d == device and s < e]
            begun_within = max(begun, opened) if length else opened
            expected.append(
                any(
                    s < e
                    and any(
                        s <= begun_within + (now - begun_within) % laps[device] + lap * laps[device] < e
                        for lap in range(1500)
                    )
                    for s, e in good
                )
            )
        assert available_at(replay, np.arange(3), instant / 1e3, place, DRAWS).tolist() == expected
        assert [any(s <= instant < e for s, e in each) for each in found] == expected
        own = [(spells.who == device) & (spells.starts <= instant) & (instant < spells.ends) for device in range(3)]
        assert [bool(each.any()) for each in own] == expected


def test_laps_need_columns(write: Write, tmp_path: Path) -> None:
    scenario = write(
        """\
        stop: {duration: 7d}
        population: [{devices: 3, availability: {kind: trace, file: t.csv, base: 2020-02-03T00:00:00Z, repeat: device}}]
        server: {cohort: 1, pause: 1h}
        """
    )
    written(tmp_path, "device,start_s,end_s\na,0,10000\n")
    done = fedsim("validate", scenario)
    assert done.returncode == 2
    assert "cannot repeat each device by its own lap: it has none of the columns seen_from_s, seen_to_s" in done.stderr
    written(tmp_path, PHONES)
    done = fedsim("validate", scenario)
    assert (done.returncode, "days that are repeated" in done.stderr) == (0, False)
    done = fedsim("validate", scenario, "--set", "population.0.availability.repeat=day")
    assert "devices were observed for 4.0 h of 28.0 h in the median" in done.stderr
    assert "`repeat: device` repeats what was seen" in done.stderr
