"""Conditions mean what they say, and what is none is refused at the character where it goes wrong."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.measure.grammar import ConditionError, MetricCondition, parse_condition

FINITE = st.floats(-1e9, 1e9, allow_nan=False)
BELOW = st.sampled_from(["<", "<="])
COMPARE = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__, "==": float.__eq__}


def ends(condition: MetricCondition) -> tuple[float | None, float | None]:
    low, high = condition.low, condition.high
    return low.value if low else None, high.value if high else None


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        ("participation.l1_chain < 0.05", "participation.l1_chain", (None, 0.05)),
        ("participation.l1_chain<5e-2", "participation.l1_chain", (None, 0.05)),
        ("a.b >= -1_000", "a.b", (-1000.0, None)),
        ("a.b > .5", "a.b", (0.5, None)),
        ("0.4 <= a.b <= 0.5", "a.b", (0.4, 0.5)),
        ("0.5 > a.b >= 0.4", "a.b", (0.4, 0.5)),
        ("10 > a.b", "a.b", (None, 10.0)),
        ("10 <= a.b", "a.b", (10.0, None)),
        ("5 == a.b", "a.b", (5.0, 5.0)),
        ("a.b between 2m and PT6M", "a.b", (120.0, 360.0)),
        ("rounds.duration.p95 <= 1d12h", "rounds.duration.p95", (None, 129_600.0)),
        ("rounds.shortage_share <= 10%", "rounds.shortage_share", (None, 0.1)),
        ("a.b == 0.5 +- 0.25", "a.b", (0.25, 0.75)),
        ("a.b == 10% +/- 2.5%", "a.b", (0.075, 0.125)),
        ("a.b == 6m ± 30s", "a.b", (330.0, 390.0)),
        ("fleet.bytes_down <= 40TB", "fleet.bytes_down", (None, 4e13)),
        ("fleet.bytes_up between 1GiB and 2.5GB", "fleet.bytes_up", (2.0**30, 2.5e9)),
        ("fleet.energy == 12kWh +- 500Wh", "fleet.energy", (11_500.0, 12_500.0)),
        ("fleet.co2 < 1.5t", "fleet.co2", (None, 1.5e6)),
        ("35/d <= updates.per_day <= 2/h", "updates.per_day", (35.0, 48.0)),
        ("  learning.fed-avg_2.loss < 1  ", "learning.fed-avg_2.loss", (None, 1.0)),
    ],
)
def test_conditions_are_read(text: str, metric: str, expected: tuple[float | None, float | None]) -> None:
    condition = parse_condition(text)
    assert condition.metric == metric
    assert condition.text[condition.offset :].startswith(metric)
    assert ends(condition) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("a.b", 3, "expected <, <=, >, >=, == or `between`"),
        ("a.b < ", 5, "the condition ends"),
        ("a.b = 4", 4, "did you mean '=='?"),
        ("a.b =< 4", 4, "did you mean '<='?"),
        ("a.b != 4", 4, "is no comparison"),
        ("a.b < 4 and a.b > 2", 8, "write each condition as an item of its own"),
        ("a.b < 4x", 6, "'4x' is not a number"),
        ("a.b < 4/x", 6, "'4/x' is not a number"),
        ("a.b < 1.2.3TB", 6, "'1.2.3TB' is not a number"),
        ("a.b == 4GB +- 1kWh", 14, "different units"),
        ("a.b < 1e999", 6, "too large"),
        ("a.b < nan", 6, "not 'nan'"),
        ("a.b < c.d", 6, "not 'c.d'"),
        ("a.b < 0.5 +- 0.1", 10, "a tolerance goes with =="),
        ("1 < a.b < 4 +- 1", 12, "nothing more"),
        ("a.b == 4 +- 1%", 12, "write both the same way"),
        ("a.b == 4 +- -1", 12, "cannot be negative"),
        ("4 < 5", 4, "expected a metric"),
        ("< 4", 0, "expected a metric"),
        ("1 < a.b > 0", 8, "point the same way"),
        ("1 == a.b < 2", 9, "point the same way"),
        ("a.b between 5 and 3", 18, "nothing lies between"),
        ("a.b between 5 or 3", 14, "expected `and`"),
        ("2 < a.b < 2", 10, "nothing lies between"),
        ("__import__('os').system('true')", 10, "not '('"),
        ("", 0, "the condition ends"),
    ],
)
def test_mistakes_are_told_where_they_are(text: str, offset: int, words: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(words)) as caught:
        parse_condition(text)
    assert caught.value.offset == offset


@given(sign=st.sampled_from(sorted(COMPARE)), limit=FINITE, observed=FINITE)
def test_one_limit_holds_as_python_compares(sign: str, limit: float, observed: float) -> None:
    condition = parse_condition(f"a.b {sign} {limit!r}")
    for value in (observed, limit, math.nextafter(limit, math.inf), math.nextafter(limit, -math.inf)):
        assert condition.holds(value) == COMPARE[sign](value, limit)
        assert condition.margin(value) < 0 or condition.holds(value) or value == limit


@given(
    low=FINITE, high=FINITE, observed=FINITE, first=st.sampled_from(["<", "<="]), second=st.sampled_from(["<", "<="])
)
def test_two_limits_hold_as_python_compares(low: float, high: float, observed: float, first: str, second: str) -> None:
    if low >= high:
        low, high = high - 1, low + 1
    forwards = parse_condition(f"{low!r} {first} a.b {second} {high!r}")
    turn = {"<": ">", "<=": ">="}
    backwards = parse_condition(f"{high!r} {turn[second]} a.b {turn[first]} {low!r}")
    for value in (observed, low, high):
        expected = COMPARE[first](low, value) and COMPARE[second](value, high)
        assert forwards.holds(value) == backwards.holds(value) == expected
        assert forwards.margin(value) == backwards.margin(value) == min(value - low, high - value)


@given(text=st.one_of(st.text(max_size=40), st.text("ab.<>=+-±/0123456789%mhs ", max_size=40)))
def test_any_text_is_a_condition_or_a_mistake_within_it(text: str) -> None:
    wrong_at: int | None = None
    try:
        condition = parse_condition(text)
    except ConditionError as error:
        wrong_at = error.offset
    if wrong_at is not None:
        assert 0 <= wrong_at <= len(text)
        return
    assert condition.low or condition.high
    assert not condition.holds(math.nan)
