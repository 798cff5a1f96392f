"""How long runs are likely to take: what a pilot extrapolates, and the process in which pilots are tried."""

import json
import multiprocessing
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedsim.common.progress import silent
from fedsim.common.working_time import leave_out
from fedsim.run.evaluate import evaluate
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts
from fedsim.simulation import simulate_log
from fedsim.trials import plan as planning
from fedsim.trials.pilot import Estimate, pilot, total_estimate
from fedsim.trials.plan import estimated_times, plan_sweep
from tests.command import fedsim
from tests.conftest import Load, Write
from tests.trials import jobs
from tests.trials.sweeping import command, session, started, until


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try pilots in a thread, which spares a second of imports."""
    monkeypatch.setattr(planning, "LocalProcesses", ThreadPoolExecutor)


class Work:
    """A processor's clock that goes on by what is done, whatever the machine: the same for every round."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, setup_s: float, round_s: float, training_s: float = 0.0
    ) -> None:
        self.now, self.rounds, self._setup_s, self._round_s = 0.0, 0, setup_s, round_s
        monkeypatch.setattr("time.process_time", lambda: self.now)

        def simulated(scenario, population, replicate, look, devices, learner):  # type: ignore[no-untyped-def]
            def working(counts: Counts, now_s: float) -> None:
                self.now += (counts.rounds - self.rounds) * round_s + setup_s * (self.rounds == 0 < counts.rounds)
                self.rounds = counts.rounds
                look(counts, now_s)

            return simulate_log(scenario, population, replicate, working, devices, learner)

        def evaluated(world, log, progress=silent):  # type: ignore[no-untyped-def]
            self.now += 1.0 + training_s * len(log.rounds)
            return evaluate(world, log, progress=progress)

        monkeypatch.setattr("fedsim.trials.pilot.simulate_log", simulated)
        monkeypatch.setattr("fedsim.trials.pilot.evaluate", evaluated)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize("training_s", [0.0, 0.5])
def test_a_pilot_is_the_beginning_extrapolated(
    small: Load, monkeypatch: pytest.MonkeyPatch, engine: str, training_s: float
) -> None:
    """Set-up and fixed parts once, rounds and training as often as there are rounds; a hundredth of it is done."""
    work = Work(monkeypatch, 7.0, 0.1, training_s)
    estimate = pilot(small("stop={rounds: 3000}", f"engine={engine}"), 2.0)
    assert estimate is not None
    assert estimate.seconds == pytest.approx(7.0 + 3000 * 0.1 + 1.0 + 3000 * training_s, rel=0.02)
    assert estimate.low < estimate.seconds < estimate.high
    assert 20 <= work.rounds <= 30


@pytest.mark.long
def test_a_pilot_does_a_short_run_whole(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, 0.5, 0.01)
    estimate = pilot(small(), 2.0)
    assert work.rounds == 60
    assert estimate is not None
    assert (estimate.seconds, estimate.low, estimate.high) == pytest.approx((2.1, 2.1 / 1.25, 2.1 * 1.25))


def test_what_is_compiled_during_a_pilot_is_none_of_its_own_time(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new machine a decision of a minute was said to take 15 hours."""
    monkeypatch.setattr("fedsim.common.working_time._once_s", [0.0])
    work = Work(monkeypatch, 0.5, 0.01)

    def compiling(world, log, progress=silent):  # type: ignore[no-untyped-def]
        work.now += 1000.0
        leave_out(1000.0)
        return evaluate(world, log, progress=progress)

    monkeypatch.setattr("fedsim.trials.pilot.evaluate", compiling)
    estimate = pilot(small(), 2.0)
    assert estimate is not None
    assert estimate.seconds == pytest.approx(0.5 + 60 * 0.01)


def test_a_day_is_seen_whole_before_it_is_multiplied(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds wait for the night, so that the first hours say nothing of how many there are in a week."""
    path = write(
        """
        stop: {duration: 20d}
        population: [{devices: 60, availability: habits, cooldown: 1d}]
        server: {cohort: 3, shortage: wait}
        engine: vectorized
        """
    )
    Work(monkeypatch, 0.1, 1.0)
    estimate = pilot(Scenario.load(path), 15.0)
    rounds = len(simulate(Scenario.load(path)).rounds)
    assert estimate is not None
    assert estimate.low < rounds < estimate.high
    assert 1 / 1.5 < rounds / estimate.seconds < 1.5


@pytest.mark.long
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "stop", ["{rounds: 3}", "{rounds: 2000}", "{duration: 6h}", "{rounds: 2000, duration: 1h}", "{duration: 1s}"]
)
def test_estimates_are_given_for_every_way_to_stop(small: Load, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    monkeypatch.setattr(planning, "_ALL_S", 0.01)
    for estimate in estimated_times(plan_sweep(small(f"stop={stop}", "sweep={grid: {server.cohort: [1, 2]}}"))):
        assert estimate is not None
        assert 0 < estimate.low < estimate.seconds < estimate.high


def test_reports_that_a_later_version_takes_are_no_part_of_a_beginning(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fedsim plan` ended with an IndexError for a buffered server, whose sessions outlast the first versions."""
    Work(monkeypatch, 0.5, 0.1)
    buffered = "stop: {rounds: 4000}\npopulation: [{devices: 500}]\n"
    buffered += "server: {mode: buffered, concurrency: 50, buffer: 5}\n"
    estimate = pilot(Scenario.load(write(buffered)), 1.0)
    assert estimate is not None
    assert estimate.low < estimate.seconds < estimate.high


@pytest.mark.usefixtures("here")
def test_a_run_that_will_fail_has_no_estimate(small: Load) -> None:
    plan = plan_sweep(
        small("population=[{devices: 6, separation: [1, 1, 1, 4, 4, 4]}]", "server={cohort: 2, selection: cyclic}")
    )
    assert estimated_times(plan) == [None]
    assert total_estimate([None, Estimate(1, 1, 1)]) is None


@pytest.mark.usefixtures("here")
def test_points_that_are_not_tried_are_like_the_nearest(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty are tried at most, the ends among them, and none once the time is over."""
    tried: list[int] = []

    def said(scenario, _budget_s):  # type: ignore[no-untyped-def]
        tried.append(scenario.stop.rounds)
        return Estimate(scenario.stop.rounds, 0.0, 1e9)

    monkeypatch.setattr(planning, "pilot", said)
    plan = plan_sweep(small(f"sweep={{grid: {{stop.rounds: {list(range(1, 101))}}}}}"))
    found = [estimate.seconds for estimate in estimated_times(plan) if estimate is not None]
    assert len(tried) == 40
    assert {1, 100} <= set(tried)
    assert max(abs(seconds - rounds) for rounds, seconds in enumerate(found, start=1)) <= 2
    tried.clear()
    monkeypatch.setattr(planning, "_PATIENCE_S", 1e-9)
    said_of: list[str] = []
    found_few = estimated_times(plan, lambda *words: said_of.append(str(words[-1])))
    assert {each.seconds for each in found_few if each} == set(tried)
    assert len(tried) == 3
    assert said_of[-1] == "3 of 40 points"


@pytest.mark.long
def test_a_pilot_that_dies_or_hangs_costs_its_own_estimate(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no process of it is left."""
    plan = plan_sweep(small("sweep={grid: {server.cohort: [1, 2]}}"))
    before = multiprocessing.active_children()
    for job in (jobs.pilot_dies, jobs.pilot_hangs):
        monkeypatch.setattr(planning, "pilot", job)
        monkeypatch.setattr(planning, "_LONGEST_S", 5.0 if job is jobs.pilot_hangs else 100.0)
        assert estimated_times(plan) == [None, Estimate(2.0, 1.0, 3.0)]
        assert multiprocessing.active_children() == before


@pytest.mark.usefixtures("here")
def test_the_command_says_the_range(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "pilot", lambda _scenario, _budget_s: Estimate(300.0, 200.0, 450.0))
    path = write("stop: {rounds: 9}\npopulation: [{devices: 9}]\nserver: {cohort: 3}\nsweep: {seeds: 4}\n")
    listed = fedsim("plan", path, "--out", tmp_path / "s", "--workers", 2)
    assert re.search(r" 300\.00  +200\.00 to 450\.00  missing", listed.stdout)
    assert "estimated time: about 10 min (6.67 min to 15 min) with 2 workers" in listed.stderr
    assert "trying: 0%, 0 of 1 points\n" in listed.stderr
    planned = json.loads(fedsim("plan", path, "--out", tmp_path / "s", "--workers", 2, "--json").stdout)
    assert (planned["estimated_cpu_s"], planned["estimated_s"]) == (1200.0, 600.0)
    assert planned["estimated_range_s"] == [400.0, 900.0]
    assert planned["runs"][3]["estimated_range_s"] == planned["points"][0]["estimated_range_s"] == [200.0, 450.0]


@pytest.mark.long
@pytest.mark.parametrize("everyone", [True, False], ids=["terminal", "kill"])
def test_an_interrupt_ends_with_one_line_and_no_orphans(write: Write, everyone: bool) -> None:
    path = write(
        """
        stop: {rounds: 100000}
        population: [{devices: 300000, availability: habits}]
        server: {cohort: 300}
        """
    )
    with started(command("plan", path)) as driver:
        until(lambda: len(session(driver.pid)) >= 3)  # the driver, what multiprocessing keeps, and the pilot
        (os.killpg if everyone else os.kill)(driver.pid, signal.SIGINT)
        out, said = driver.communicate(timeout=60)
        assert (driver.returncode, out) == (130, "")
        assert said.removeprefix("trying: 0%, 0 of 1 points\n") == "interrupted\n"
        until(lambda: not session(driver.pid), 20)


def test_what_precedes_training_is_done_once_by_a_pilot(small: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was done for 4, 16, 64, ... rounds, and what it took by chance counted as the pace of training."""
    work, calls = Work(monkeypatch, 0.1, 0.001), list[int]()

    def trained(federation, log, progress=silent):  # type: ignore[no-untyped-def]
        calls.append(len(log.rounds))
        work.now += 20.0
        for done in range(1, len(log.rounds) + 1):
            work.now += 0.01
            progress("training", done / len(log.rounds))

    monkeypatch.setattr("fedsim.trials.pilot.evaluate", trained)
    learning = "learning={problem: {kind: robust_regression, samples: 5}, optimizers: [fedavg], step_size: 0.1}"
    estimate = pilot(small("stop={rounds: 5000}", learning), 1.0)
    assert len(calls) == 1
    assert estimate is not None
    assert estimate.seconds == pytest.approx(0.1 + 5000 * 0.011 + 20.0, rel=0.02)
    assert estimate.high <= 3.001 * estimate.low
