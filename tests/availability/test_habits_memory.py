"""Memory does not grow with the length of a run of devices with habits: 60 days take what ten take."""

import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fedsim.availability.civil import Place
from fedsim.availability.habits.many import HabitsBatch
from fedsim.availability.kinds import availability_models
from fedsim.common.instants import DAY
from fedsim.common.keyed import Purpose, stream
from fedsim.log.journal import Journal
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_into
from fedsim.simulation.engine import Simulation
from tests.held import Held

SERVER = {"cohort": 5, "over_select": 1.2, "deadline": "10m", "pause": "6h"}
POPULATION = [{"devices": 50, "separation": 5, "availability": "habits", "time_zone": "Europe/Berlin"}]


@pytest.mark.long
def test_memory_does_not_grow_with_the_days(tmp_path: Path) -> None:
    def held(days: int) -> int:
        data = {"stop": {"duration": f"{days}d"}, "server": SERVER, "records": {"gauges": "12h"}}
        scenario = Scenario.model_validate(data | {"population": [POPULATION[0] | {"devices": 100_000}]})
        ready = preflight(scenario)
        with Held() as held:
            simulation = Simulation(scenario, ready.population, 0, lambda *_: None, ready.devices)
            simulate_into(Journal(tmp_path / str(days)), simulation)
        return held.most

    held(1)  # what is loaded once
    assert held(60) <= 1.2 * held(10)


def test_nothing_is_kept_of_a_window() -> None:
    scenario = Scenario.model_validate({"stop": {"rounds": 1}, "population": POPULATION, "server": SERVER})
    (model,) = availability_models(scenario)
    one, draws = np.array([0]), stream(0, 0, Purpose.AVAILABILITY)
    (batch,) = model.batches([(Place(scenario.start, ZoneInfo("Europe/Berlin")), one)], draws)  # type: ignore[attr-defined]
    assert isinstance(batch, HabitsBatch)
    batch.spells(one, 0, DAY)
    before = sys.getrefcount(batch._persons.columns)
    for day in range(10):
        batch.spells(one, day * DAY, (day + 1) * DAY)
    assert sys.getrefcount(batch._persons.columns) < before + 5
