"""How many devices a round looks at: counted, where a benchmark would time."""

from typing import Any

import numpy as np
import pytest

from fedsim.availability.habits.many import HabitsBatch
from fedsim.common.arrays import Bools, Ints
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log


def looked_at(monkeypatch: pytest.MonkeyPatch, group: dict[str, Any], law: str) -> float:
    """Return devices that are looked up a round, among 10^5 for half a day in rounds of 100."""
    counted, at = [0], HabitsBatch.at

    def counting(batch: HabitsBatch, clients: Ints, instant: int) -> Bools:
        counted[0] += len(clients)
        return at(batch, clients, instant)

    data = {
        "start": "2026-01-05T06:00:00Z",
        "stop": {"rounds": 120},
        "population": [{"devices": 100_000, "availability": "habits", **group}],
        "server": {"cohort": 100, "pause": "5m", "selection": law},
        "records": {"gauges": None},
        "engine": "vectorized",
    }
    scenario = Scenario.model_validate(data)
    with monkeypatch.context() as patch:
        patch.setattr(HabitsBatch, "at", counting)
        log = simulate_log(scenario, build_population(scenario))
    assert np.asarray(log.rounds["selected"]).sum() == 12_000
    return counted[0] / 120


@pytest.mark.long
def test_weights_and_separations_hardly_cost_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """By day and night: at most 2.5 times those of equal weights without a separation, which are few themselves."""
    plain = looked_at(monkeypatch, {}, "midzuno")
    assert plain < 1_000
    weights = {"weight": {"kind": "lognormal", "sigma": 1}, "separation": 100}
    heavy = {"weight": {"kind": "zipf", "exponent": 1.1}, "separation": 100, "cooldown": "6h"}
    for group, law in ((weights, "midzuno"), (weights, "successive"), (heavy, "successive")):
        assert looked_at(monkeypatch, group, law) < 2.5 * plain
