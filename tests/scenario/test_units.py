"""Durations and instants as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.scenario.units import (
    Duration,
    PositiveDuration,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)

DURATION, POSITIVE = TypeAdapter[float](Duration), TypeAdapter[float](PositiveDuration)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("8h", 28_800.0),
        ("1d12h", 129_600.0),
        ("PT8H", 28_800.0),
        ("P1DT12H", 129_600.0),
        ("1.5h", 5_400.0),
        ("250ms", 0.25),
        ("2w", 1_209_600.0),
        ("1m30s", 90.0),
        ("0s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "s", "1h1d", "-3s", "1e3s", "12:30", "P", "PT", "1 h", "nan s", "9" * 400 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        parse_duration(text)


@pytest.mark.parametrize("value", [30, 1.5])
def test_a_bare_number_is_asked_for_its_unit(value: float) -> None:
    with pytest.raises(ValueError, match=f"needs a unit: write {value}s, {value}m or {value}h"):
        parse_duration(value)


@given(st.floats(0, 1e9, allow_subnormal=False))
def test_a_written_duration_reads_as_the_same_number(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.floats(0, 1e9))
def test_durations_of_a_scenario_are_whole_milliseconds(seconds: float) -> None:
    found: float = DURATION.validate_python(seconds)
    assert found == round(found, 3) == pytest.approx(seconds, abs=5.001e-4, rel=1e-15)
    assert DURATION.validate_python(format_duration(found)) == found


@pytest.mark.parametrize("value", ["0s", "0.4ms", 0.0004, "PT0.0004S"])
def test_what_rounds_to_nothing_is_not_above_nothing(value: object) -> None:
    assert DURATION.validate_python(value) == 0.0
    with pytest.raises(ValidationError, match=f"must be above 0 in whole milliseconds, not {value!r}"):
        POSITIVE.validate_python(value)


def test_instants_are_whole_milliseconds() -> None:
    assert parse_instant("2026-12-31T23:59:59.999600Z") == parse_instant("2027-01-01T00:00:00Z")
    assert format_instant(parse_instant("2026-01-05T00:00:00.0014Z")) == "2026-01-05T00:00:00.001000Z"


def test_instants() -> None:
    assert format_instant(parse_instant("2026-01-05T00:00:00Z")) == "2026-01-05T00:00:00Z"
    assert format_instant(parse_instant("2026-01-05T01:00:00+01:00")) == "2026-01-05T01:00:00+01:00"


@pytest.mark.parametrize("value", ["2026-01-05T00:00:00", "2026-13-05T00:00:00Z", "tomorrow", 5, None])
def test_what_is_no_instant(value: object) -> None:
    with pytest.raises(ValueError, match="2026-01-05T00:00:00Z"):
        parse_instant(value)
