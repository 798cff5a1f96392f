"""What a simulation leaves behind: nothing that grows with the number of rounds."""

import gc
import weakref
from typing import Any

import pytest
import simpy
from polars.testing import assert_frame_equal

from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts
from fedsim.simulation import Enough, engine, simulate_log
from fedsim.simulation.arrays.world import ArrayWorld
from fedsim.simulation.clock import Clock
from tests.conftest import Load


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
        ahead = 0

        def schedule(self, *arguments: Any, **options: Any) -> None:
            self.ahead += 1
            longest[-1] = max(longest[-1], self.ahead)
            super().schedule(*arguments, **options)

        def step(self) -> None:
            self.ahead -= 1
            super().step()

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


@pytest.mark.long
def test_processes_do_not_pile_up() -> None:
    """No process outlives its simulation, however many sessions it had."""
    gc.collect()
    before = processes()
    case = scenario(200)
    simulate_log(case, build_population(case))
    gc.collect()
    assert processes() == before


@pytest.mark.parametrize("kind", ["process", "vectorized"])
@pytest.mark.parametrize("server", ["{cohort: 3, deadline: 40s}", "{mode: buffered, concurrency: 4, buffer: 2}"])
def test_enough_ends_a_run_as_its_duration_does(small: Load, kind: str, server: str) -> None:
    """Rounds that have closed are those of the whole run."""
    run = small(f"engine={kind}", "stop={rounds: 500}", f"server={server}")
    population = build_population(run)

    def look(counts: Counts, _now_s: float) -> None:
        if counts.rounds >= 20:
            raise Enough

    log, whole = simulate_log(run, population, 0, look), simulate_log(run, population)
    assert 20 <= len(log.rounds) < 500
    assert_frame_equal(log.rounds.head(20), whole.rounds.head(20))
    stopped = small(f"engine={kind}", f"stop={{duration: {log.ended_s}s}}", f"server={server}")
    if "buffered" not in server:  # which may be stopped between two things that happen at one instant
        assert_frame_equal(log.rounds, simulate_log(stopped, population).rounds.head(len(log.rounds)))


@pytest.mark.parametrize("stop", ["{rounds: 5}", "{duration: 5m}"])
def test_nothing_of_a_simulation_stays(small: Load, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    """Not even until cycles are collected, which may be when many more have been simulated."""
    rosters = []

    def remembered(*arguments: Any) -> ArrayWorld:
        world = ArrayWorld(*arguments)
        rosters.append(weakref.ref(world.roster))
        return world

    monkeypatch.setattr(engine, "ArrayWorld", remembered)
    run = small("engine=vectorized", f"stop={stop}", "population.0.availability={kind: renewal, on: 9m, off: 1m}")
    gc.disable()
    try:
        simulate_log(run, build_population(run))
        assert [there() for there in rosters] == [None]
    finally:
        gc.enable()
