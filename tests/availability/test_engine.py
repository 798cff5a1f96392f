"""The processes follow the models: what the gauges count is what the lookup says."""

import numpy as np
import pytest

from fedsim.availability import available_at
from fedsim.availability.population import strata
from fedsim.common.keyed import Purpose, stream
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log

ALWAYS_AT_HOME = {"chance": 0, "leave": "8:00", "back": "17:00"}
GROUPS = [
    {"name": "new york", "devices": 60, "time_zone": "America/New_York", "availability": "habits"},
    {
        "name": "two continents",
        "devices": 60,
        "time_zone": ["Asia/Kolkata", "Europe/Berlin", "Asia/Kolkata"] * 20,
        "availability": "habits",
    },
    {
        "name": "at home",
        "devices": 20,
        "availability": {
            "kind": "habits",
            "require": ["network"],
            "network": {"home": 1, "weekday": ALWAYS_AT_HOME, "weekend": ALWAYS_AT_HOME, "drop_outs": {"per_hour": 0}},
        },
    },
    {
        "name": "never",
        "devices": 5,
        "availability": {"kind": "habits", "require": ["network"], "network": {"home": 0, "work": 0}},
    },
    {
        "name": "machines",
        "devices": 30,
        "availability": {"kind": "renewal", "on": {"kind": "weibull", "mean": "3h", "shape": 0.7}, "off": "5h"},
    },
]


@pytest.mark.parametrize("days", [17, pytest.param(40, marks=pytest.mark.long)])
def test_the_gauges_count_what_the_models_say(days: int) -> None:
    """Every hour, over a change of the clocks and more than one window of the habits."""
    scenario = Scenario.model_validate(
        {
            "seed": 3,
            "start": "2026-02-20T12:00:00Z",
            "stop": {"duration": f"{days}d"},
            "population": GROUPS,
            "server": {"cohort": 5, "pause": "6h", "shortage": "skip"},
        }
    )
    population = build_population(scenario)
    log = simulate_log(scenario, population)
    draws = stream(3, 0, Purpose.AVAILABILITY)
    found = strata(scenario, population)
    assert len(found.names) == len(GROUPS) + 1
    for cell, (kind, place, (group, zone)) in enumerate(zip(found.models, found.places, found.names, strict=True)):
        members = np.flatnonzero(found.of_client == cell)
        gauge = log.gauges.filter(group=group, time_zone=zone)
        expected = [int(available_at(kind, members, instant, place, draws).sum()) for instant in gauge["time_s"]]
        assert gauge["available"].to_list() == expected
        assert len(expected) == days * 24 + 1


def test_a_device_that_stays_available_drops_nothing() -> None:
    """Its interval comes in pieces; where they touch, a running session goes on."""
    scenario = Scenario.model_validate(
        {
            "stop": {"duration": "10d"},
            "population": [{**GROUPS[2], "session": {"train": "7h"}}],
            "server": {"cohort": 20},
        }
    )
    log = simulate_log(scenario, build_population(scenario))
    assert len(log.rounds) > 30
    assert not (log.participations["outcome"] == "dropped").any()
