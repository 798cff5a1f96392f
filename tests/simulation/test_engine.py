"""What a simulation leaves behind: nothing that grows with the number of rounds."""

import gc
from typing import Any

import pytest
import simpy

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import engine, simulate_log
from fedsim.simulation.clock import Clock


def scenario(rounds: int, **server: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "stop": {"rounds": rounds},
            "population": [
                {"devices": 30, "separation": 1, "availability": {"kind": "renewal", "on": "5m", "off": "5m"}}
            ],
            "server": {"cohort": 10, "over_select": 1.2, "deadline": "85s", **server},
            "records": {"gauges": None},
        }
    )


@pytest.mark.parametrize("shortage", ["wait", "proceed"])
def test_events_ahead_do_not_pile_up(monkeypatch: pytest.MonkeyPatch, shortage: str) -> None:
    """Rounds wait, drop sessions, abort and close late; the queue stays as short after 400 rounds as after 40."""
    longest: list[int] = []

    class Watched(Clock):
        def step(self) -> None:
            super().step()
            longest[-1] = max(longest[-1], len(self._queue))

    monkeypatch.setattr(engine, "Clock", Watched)
    for rounds in (40, 400):
        longest.append(0)
        case = scenario(rounds, shortage=shortage)
        log = simulate_log(case, build_population(case))
        assert {"dropped", "late"} <= set(log.participations["outcome"])
    assert longest[1] <= 1.2 * longest[0] + 5


def processes() -> int:
    # By type alone: asked with isinstance, lazy objects of other libraries would wake up.
    return sum(issubclass(type(thing), simpy.Process) for thing in gc.get_objects())


def test_processes_do_not_pile_up() -> None:
    """No process outlives its simulation, however many sessions it had."""
    gc.collect()
    before = processes()
    case = scenario(200)
    simulate_log(case, build_population(case))
    gc.collect()
    assert processes() == before
