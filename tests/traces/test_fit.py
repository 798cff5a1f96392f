"""Models fitted to traces that such models made: the parameters come back, and the fit says how good it is."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats

from fedsim.availability import AvailabilityModel, Place, between, conditions
from fedsim.availability.renewal import RenewalAvailability
from fedsim.availability.spells import Spells
from fedsim.availability.trace import CONDITIONS, Pattern, TraceError, TraceRows, build_pattern, clean, read_rows
from fedsim.common.instants import each_to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.group import Availability
from fedsim.traces.fit import fit, hourly_shares
from fedsim.traces.fit_renewal import CensoredLengths, fit_laws
from tests.availability.cases import model_of

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
DAY = 86_400.0


def recorded(kind: AvailabilityModel, devices: int, days: float) -> Pattern:
    """Lay out the trace that a model makes."""
    place, draws = Place(MONDAY, ZoneInfo("UTC")), stream(3, 0, Purpose.AVAILABILITY)
    rows = [
        (device, start, end, CONDITIONS.index(condition))
        for device in range(devices)
        for condition, pieces in conditions(kind, device, place, draws).items()
        for start, end in between(pieces, 0.0, days * DAY)
    ]
    owners, starts, ends, codes = (np.array(column) for column in zip(*rows, strict=True))
    names = tuple(map(str, range(devices)))
    return build_pattern(
        clean(TraceRows(names, owners, starts, ends, codes.astype(np.int8))), MONDAY, repeat="none", keep_empty=True
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("on", "off"),
    [
        ({"kind": "exponential", "mean": "2h"}, {"kind": "weibull", "mean": "5h", "shape": 0.6}),
        ({"kind": "lognormal", "median": "1h", "sigma": 0.9}, {"kind": "pareto", "mean": "6h", "shape": 2.5}),
        ({"kind": "weibull", "mean": "3h", "shape": 2.0}, {"kind": "exponential", "mean": "9h"}),
    ],
)
def test_a_renewal_model_comes_back(on: Mapping[str, Any], off: Mapping[str, Any]) -> None:
    """About 5,000 lengths each, some cut by the end of the week: the law is found and its mean is 10 % right."""
    kind = model_of({"kind": "renewal", "on": on, "off": off})
    assert isinstance(kind, RenewalAvailability)
    found = fit(recorded(kind, 300, 7), "renewal")
    for name, law in (("on", on), ("off", off)):
        best = found.laws[name][0]
        assert best.source["kind"] in {law["kind"], "weibull"}  # an exponential law is a Weibull law too
        fitted = getattr(TypeAdapter[Any](Availability).validate_python(found.availability), name)
        assert fitted.kind == best.source["kind"]
        again = next(each for each in found.laws[name] if each.source["kind"] == law["kind"])
        assert again.mean == pytest.approx(getattr(kind.process, name).mean, rel=0.1)
        assert best.ks < 0.04 < max(each.ks for each in found.laws[name])
    assert found.hours.mean < 0.03


def test_censored_lengths_count() -> None:
    """Cutting half of the exponential lengths short does not make their mean shorter."""
    lengths = stats.expon(scale=100).rvs(4000, random_state=1)
    cuts = stats.uniform(0, 200).rvs(4000, random_state=2)
    laws = fit_laws(CensoredLengths(lengths[lengths < cuts], cuts[lengths >= cuts]))
    exponential = next(law for law in laws if law.source["kind"] == "exponential")
    assert exponential.mean == pytest.approx(100, rel=0.08)
    assert exponential.ks < 0.04
    with pytest.raises(ValueError, match="3 whole lengths are too few"):
        fit_laws(CensoredLengths(lengths[:3], cuts))


@pytest.mark.long
def test_a_renewal_model_misses_the_time_of_day_and_says_so() -> None:
    trace = clean(read_rows(Path("scenarios/studies/phones.parquet")), keep_empty=True)
    pattern = build_pattern(trace, datetime(2020, 2, 3, tzinfo=UTC), repeat="none", keep_empty=True)
    renewal, habits = fit(pattern, "renewal"), fit(pattern, "habits")
    assert renewal.hours.largest > 0.3
    assert habits.hours.largest < 0.15
    assert any("25 devices are never available" in note for note in renewal.notes)
    assert any("being on a network are not estimated" in note for note in habits.notes)


def test_a_trace_that_is_too_short_cannot_be_fitted() -> None:
    rows = TraceRows(("a",), np.zeros(2, np.int64), np.array([0.0, 50]), np.array([9.0, 99]), np.zeros(2, np.int8))
    pattern = build_pattern(clean(rows), MONDAY, repeat="none")
    with pytest.raises(TraceError, match="cannot be fitted by renewal: on: 0 whole lengths are too few"):
        fit(pattern, "renewal")
    with pytest.raises(TraceError, match="cannot be fitted by habits: 0 whole days are too few"):
        fit(pattern, "habits")


minutes = st.integers(0, 3000).map(lambda minute: minute * 60.0)


@given(st.lists(st.tuples(st.integers(0, 1), minutes, minutes), min_size=1, max_size=10), minutes, minutes)
def test_shares_by_hour_equal_a_count_of_minutes(
    written: list[tuple[int, float, float]], one: float, two: float
) -> None:
    begin, end = min(one, two), max(one, two) + 60
    good = [(device, max(s, begin), min(e, end)) for device, s, e in written if max(s, begin) < min(e, end)]
    columns = np.array(good, dtype=np.float64).reshape(-1, 3)
    starts, ends = each_to_ms(columns[:, 1:].T)
    spans = Spells(columns[:, 0].astype(np.int64), starts, ends, 2).joined()
    seen, held = np.zeros(24), np.zeros(24)
    for minute in np.arange(begin, end, 60.0):
        hour = int(minute // 3600) % 24
        seen[hour] += 2
        held[hour] += sum(any(own == d and s <= minute < e for own, s, e in good) for d in range(2))
    with np.errstate(invalid="ignore"):
        expected = held / seen
    starts, ends = each_to_ms([[begin] * 2, [end] * 2])
    observed = Spells(np.arange(2), starts, ends, 2)
    np.testing.assert_allclose(hourly_shares(spans, observed), expected, atol=1e-9)
