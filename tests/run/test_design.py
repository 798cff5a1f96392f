"""Weights for a wanted participation, simulated in random worlds: with habits in three time zones, and without."""

import os
import random
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario
from fedsim.measure.contributions import pulls
from fedsim.measure.noise import by_chance
from fedsim.population import drawn_columns
from fedsim.run.design import design
from fedsim.run.preflight import preflight
from fedsim.simulation import simulate_log

ZONES = {"america": "America/New_York", "europe": "Europe/Berlin", "asia": "Asia/Kolkata"}
WORLDS = int(os.environ.get("FEDSIM_DESIGNS", "6"))
"""Random worlds: `FEDSIM_DESIGNS=20 pytest tests/run/test_design.py -m campaign` tries more."""


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


def drawn_world(number: int, seed: int) -> Scenario:
    """Return world `number`, whose weights, and waits of the clients, are drawn by a seed: every fifth one in zones."""
    draws, zones, groups = random.Random(number), number % 5 == 2, list[dict[str, Any]]()
    for name, zone in [*ZONES.items()][: 3 if zones else 2]:
        waits = {"kind": "uniform", "low": draws.randint(0, 2), "high": draws.randint(3, 6)}
        group = {"name": name, "devices": draws.randint(10, 20), "separation": waits}
        group["weight"] = {"kind": "lognormal", "sigma": 1} if draws.random() < 0.5 else 1.0
        groups.append(group | ({"availability": "habits", "time_zone": zone} if zones else {}))
    server = {"cohort": draws.randint(1, 3), "selection": draws.choice(["midzuno", "successive"])}
    server |= {"pause": "20m"} if zones else {}
    stop = {"rounds": 1500} | ({"duration": "7d"} if zones else {})
    top = {"seed": seed, "stop": stop, "population": groups, "server": server, "records": {"gauges": None}}
    return Scenario.model_validate(top | {"engine": "vectorized"})


@pytest.mark.campaign
@pytest.mark.timeout(0)  # a campaign takes as long as it takes
def test_designs_of_drawn_waits_come_as_close_as_they_say() -> None:
    """With three seeds each: what `fedsim design` writes is run with another, longer where all are always there.

    Stated is the error of the chain's mean field, and chance beside it; or else how far another seed was.
    """
    for number in range(WORLDS):
        for seed in range(3):
            scenario = drawn_world(number, seed)
            found, values, first = design(scenario), dict[str, Any](), 0
            for place, drawn in enumerate(drawn_columns(scenario)):
                size = scenario.population[place].devices
                columns = drawn | {"weight": found.weights[first : first + size]}
                values |= {f"population.{place}.{key}": each.tolist() for key, each in columns.items()}
                first += size
            longer = {} if scenario.stop.duration else {"stop.rounds": 9000}
            after, taken = simulated(scenario.with_values({**values, **longer, "seed": 1000 + seed}))
            apart, chance = float(np.abs(after - found.wanted).sum()), by_chance(taken, scenario.devices)
            stated = 2 * found.other_seed.tv if found.other_seed else (found.error or 0.0) + chance
            print(number, seed, found.method, f"{apart:.4f} {stated:.4f} {chance:.4f}")  # noqa: T201
            assert apart <= 1.5 * stated, (number, seed)


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
