"""Looking all devices up ahead says what looking up those who are asked about says."""

from typing import Any

import numpy as np
import pytest

from fedsim.availability.population import strata
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER, MINUTE
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation.arrays import precomputed
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability

SHORT = {"kind": "weibull", "mean": "1h", "shape": 0.1}  # many lengths are too short for the clock
ETERNAL = {"kind": "pareto", "mean": "1d", "shape": 1.01}
CASES: dict[str, dict[str, Any]] = {
    "habits in two zones": {"availability": "habits", "time_zone": ["UTC", "Europe/Berlin"] * 15},
    "renewal": {"availability": {"kind": "renewal", "on": "40m", "off": "1h"}},
    "too short for the clock": {"availability": {"kind": "renewal", "on": SHORT, "off": SHORT}},
    "for ever": {"availability": {"kind": "renewal", "on": ETERNAL, "off": ETERNAL}},
    "always": {"availability": "always"},
}


def world(case: dict[str, Any]) -> Scenario:
    shock = {"of": "zone", "share": 0.5, "every": "5h", "length": "40m"}
    groups = [{"devices": 30, "name": "own", **case}, {"devices": 3, "name": "others"}]
    data = {"stop": {"rounds": 1}, "population": groups, "server": {"cohort": 1}, "shocks": [shock]}
    return Scenario.model_validate({**data, "seed": 8, "start": "2026-03-28T05:00:00.125Z"})  # a clock is changed


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("horizon", [FOREVER, 13 * DAY // 10])
def test_what_is_foreseen_is_what_is_looked_up(case: str, horizon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any instant, and at those at which spells and what is known begin and end."""
    monkeypatch.setattr(precomputed, "_LONGEST", 4 * DAY // 10)
    scenario = world(CASES[case])
    population = build_population(scenario)
    devices = strata(scenario, population)
    true = availability_of(scenario, devices, 0)
    foreseen = PrecomputedAvailability(availability_of(scenario, devices, 0), horizon)
    everyone, rng = np.arange(33), np.random.default_rng(2)
    spells = availability_of(scenario, devices, 0).spells(everyone, 0, 3 * DAY)
    instants: Ints = np.concatenate([rng.integers(0, 2 * DAY, 150), rng.choice(spells.starts, 25)])
    instants = np.sort(np.concatenate([instants, rng.choice(spells.ends, 25)]))
    now, left, ahead = 0, instants[instants < min(horizon, 2 * DAY)].tolist(), 0
    while left:
        clients = rng.integers(0, 33, 20)
        available = true.at(clients, now)
        assert foreseen.at(clients, now).tolist() == available.tolist()
        some = clients[available]
        until = now + rng.exponential(4_000_000.0, len(some)).astype(np.int64)
        assert foreseen.ends(some, now, until).tolist() == true.ends(some, now, until).tolist()
        if (mask := foreseen.everyone(now)) is not None:
            ahead += 1
            assert foreseen.possible(now) is None
            assert mask.tolist() == true.at(everyone, now).tolist()
        end = foreseen._covered_until
        later = left.pop(0)
        # Where what is known ends is an instant of its own.
        now = end if now < end < later else later
    assert ahead > 100


def test_who_is_seldom_asked_about_is_looked_up() -> None:
    """Two questions a day do not pay for a day of everyone, but many do: until no more are asked."""
    scenario = world(CASES["renewal"])
    ahead = PrecomputedAvailability(availability_of(scenario, strata(scenario, build_population(scenario)), 0), FOREVER)
    one = np.array([3])
    for day in range(20):
        ahead.at(one, day * DAY)
        ahead.at(one, day * DAY + DAY // 2)
        assert ahead.everyone(day * DAY) is None
    for minute in range(60):
        ahead.at(one, 20 * DAY + MINUTE * minute)
    assert ahead.everyone(20 * DAY + 60 * MINUTE) is not None
    for day in range(23, 27):
        ahead.at(one, day * DAY)
    assert ahead.everyone(27 * DAY) is None


def test_many_clients_are_never_looked_up_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precomputed, "_MOST", 32)
    scenario = world(CASES["renewal"])
    ahead = PrecomputedAvailability(availability_of(scenario, strata(scenario, build_population(scenario)), 0), FOREVER)
    for minute in range(60):
        ahead.at(np.arange(33), MINUTE * minute)
        assert ahead.everyone(MINUTE * minute) is None
