"""Weights for a wanted participation, simulated in random worlds: with habits in three time zones, and without."""

import os
import random
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario
from fedsim.measure.contributions import pulls
from fedsim.measure.noise import by_chance
from fedsim.run.design import design
from fedsim.run.preflight import preflight
from fedsim.simulation import simulate_log

ZONES = {"america": "America/New_York", "europe": "Europe/Berlin", "asia": "Asia/Kolkata"}
WORLDS = int(os.environ.get("FEDSIM_DESIGNS", "6"))
"""Random worlds: `FEDSIM_DESIGNS=20 pytest tests/run/test_design.py -m long` tries more."""


def world(number: int) -> Scenario:
    """Return world `number`, with weights of its own: every other one of devices with habits in three time zones."""
    draws, habits, groups = random.Random(number), number % 2 == 0, list[dict[str, Any]]()
    for name, zone in ZONES.items():
        devices = draws.randint(15, 40)
        weights = [round(draws.lognormvariate(0, 0.5), 3) for _ in range(devices)]
        group = {"name": name, "devices": devices, "separation": draws.choice([0, 2, 5]), "weight": weights}
        groups.append(group | ({"availability": "habits", "time_zone": zone} if habits else {}))
    server = {
        "cohort": draws.randint(2, 4),
        "selection": "successive" if habits else draws.choice(["successive", "bernoulli"]),
    }
    server |= {"pause": "15m"} if habits else {}
    stop = {"rounds": 1500} | ({"duration": "28d"} if habits else {})
    top = {"seed": number, "stop": stop, "population": groups, "server": server, "records": {"gauges": None}}
    return Scenario.model_validate(top)


def simulated(scenario: Scenario) -> tuple[np.ndarray, int]:
    """Return the share of each client, and how many there were of all."""
    taken = simulate_log(scenario, preflight(scenario).population).participations
    return pulls(taken, scenario.devices), len(taken)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_designed_weights_give_what_was_wanted_within_noise() -> None:
    """Wanted is what hidden weights gave; weights that are found for it come as close as independent draws would."""
    for number in range(WORLDS):
        hidden = world(number)
        plain = hidden.with_values({f"population.{place}.weight": 1.0 for place in range(len(ZONES))})
        wanted = simulated(hidden)[0]
        wanted = np.maximum(
            wanted, wanted[wanted > 0].min() / 2
        )  # a device of which the run took no report is wanted, too
        wanted /= wanted.sum()
        own = np.split(design(plain, wanted).weights, np.cumsum([each.devices for each in plain.population])[:-1])
        found = plain.with_values({f"population.{place}.weight": each.tolist() for place, each in enumerate(own)})
        (after, taken), before = simulated(found), simulated(plain)[0]
        apart = np.abs(after - wanted).sum()
        assert apart < by_chance(taken, plain.devices), number
        assert apart < 0.6 * np.abs(before - wanted).sum(), number


def test_a_million_devices_are_answered_by_the_chain() -> None:
    """More than a run asks theory of, since that takes seconds."""
    group = {"devices": 10**6, "separation": 50, "weight": {"kind": "lognormal", "sigma": 0.5}}
    server = {"cohort": 1000, "selection": "successive"}
    top = {"seed": 1, "stop": {"rounds": 20}, "population": [group], "server": server, "records": {"gauges": None}}
    found = design(Scenario.model_validate(top))
    assert found.method == "the mean field of the chain"
    assert found.error is not None
    assert 0 < found.error < 0.01
    assert not found.missed.any()
