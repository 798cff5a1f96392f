"""Groups that nobody defined: tenths by available time and speed, and time zones, against plain ways to find them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.population import strata
from fedsim.availability.shocks import availability_of
from fedsim.common.instants import DAY
from fedsim.measure.frequencies import available_time
from fedsim.measure.limits import UnknownMetricError, find_metric
from fedsim.measure.metrics.participation import tenths
from fedsim.population import build_population
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario

HABITS = {
    "seed": 4,
    "stop": {"duration": "9d"},
    "population": [
        {
            "devices": 300,
            "availability": "habits",
            "time_zone": {
                "kind": "mixture",
                "parts": [{"share": 2, "source": "UTC"}, {"share": 1, "source": "Asia/Tokyo"}],
            },
            "session": {"train": "5m", "speed": {"kind": "lognormal", "sigma": 0.5}},
        }
    ],
    "server": {"cohort": 5, "pause": "10m", "shortage": "proceed"},
}


@given(key=st.lists(st.integers(0, 4), min_size=10, max_size=60), seed=st.integers(0, 99))
def test_tenths_share_what_lies_in_several_of_them(key: list[int], seed: int) -> None:
    """Against ten copies of each device, cut into ten: with ties averaged over all orders, that is over their mean."""
    keys, values = np.array(key, dtype=float), np.random.default_rng(seed).poisson(3.0, len(key)).astype(float)
    of_level = {each: values[keys == each].mean() for each in set(key)}
    copies = np.repeat([of_level[each] for each in sorted(key)], 10)
    assert tenths(keys, values) == pytest.approx(copies.reshape(10, -1).mean(axis=1))
    assert tenths(keys, values).mean() == pytest.approx(values.mean())


@pytest.mark.long
def test_available_time_is_what_a_fine_grid_of_instants_sees() -> None:
    scenario = Scenario.model_validate({**HABITS, "shocks": [{"every": "1d", "length": "4h", "share": 0.5}]})
    population = build_population(scenario)
    found = available_time(scenario, population, 9 * 86_400.0)
    assert found is not None
    assert found.clients.tolist() == list(range(300))
    asked = availability_of(scenario, strata(scenario, population), 0)
    grid = range(150_000, 9 * DAY, 300_000)
    seen = np.mean([asked.at(found.clients, instant) for instant in grid], axis=0)
    assert np.abs(seen - found.share).max() < 0.01


def test_of_many_devices_some_are_followed_and_of_long_runs_the_first_days() -> None:
    renewal = {"kind": "renewal", "on": "1d", "off": "3d"}
    data = {**HABITS, "population": [{"devices": 30_000, "availability": renewal}]}
    scenario = Scenario.model_validate(data)
    found = available_time(scenario, build_population(scenario), 5_000 * 86_400.0)
    assert found is not None
    assert len(found.clients) == 200
    assert np.ptp(np.diff(found.clients)) <= 1
    assert found.share.mean() == pytest.approx(0.25, abs=0.005)
    always = Scenario.model_validate({**HABITS, "population": [{"devices": 5}]})
    assert available_time(always, build_population(always), 100.0) is None


@pytest.mark.long
def test_metrics_tell_who_takes_part() -> None:
    result = simulate(Scenario.model_validate(HABITS))
    counts, metrics = result.clients["participations"].to_numpy(), result.metrics
    speed = result.clients["speed"].to_numpy()
    slowest = counts[np.argsort(speed)[:30]]
    assert metrics["participation.by_speed.1"] == pytest.approx(slowest.mean() / counts.mean())
    available = [metrics[f"participation.availability.{number}"] for number in range(1, 11)]
    assert available == sorted(available)
    told = [metrics[f"participation.by_availability.{number}"] for number in range(1, 11)]
    assert np.mean(told) == pytest.approx(1.0)
    assert told[-1] > 1.5 > told[0]
    zones = result.clients["time_zone"].to_numpy()
    each = {zone: counts[zones == zone].mean() / counts.mean() for zone in ("UTC", "Asia/Tokyo")}
    assert metrics["participation.by_zone.most"] == pytest.approx(max(each.values()))
    assert metrics["participation.by_zone.least"] == pytest.approx(min(each.values()))


def test_limits_may_name_a_tenth() -> None:
    scenario = Scenario.model_validate(HABITS)
    assert "available time" in find_metric("participation.by_availability.10", scenario).meaning
    with pytest.raises(UnknownMetricError):
        find_metric("participation.by_availability.11", scenario)


def test_where_all_have_as_many_reports_no_tenth_is_tested() -> None:
    """A cool-down that is the same for all makes all take turns: 20 reports each, whatever their speed."""
    group = {"devices": 60, "cooldown": "30m"}
    population = [{"name": f"x{x}", **group, "session": {"train": "1m", "speed": x}} for x in (1, 2)]
    server = {"mode": "buffered", "concurrency": 100, "buffer": 10}
    run = simulate(Scenario.model_validate({"population": population, "server": server, "stop": {"rounds": 240}}))
    assert set(run.clients["reported"]) == {20}
    assert run.series["shares"].filter(kind="speed")["significant"].is_null().all()
    assert run.series["bias"]["trend"].to_list() == [None]
