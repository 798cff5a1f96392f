"""What a sweep is going to run: its runs by name, and how long they are likely to take."""

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fedsim.common.progress import Report, silent
from fedsim.scenario import Scenario
from fedsim.sweeps.executors.local import LocalProcesses, WorkerLostError, leaving_no_process
from fedsim.sweeps.pilot import Estimate, pilot, warm_up
from fedsim.sweeps.points import Point, points_of, seeds_of

_MOST_PILOTS = 40
_MOST_S, _ALL_S = 3.0, 15.0
"""Processor seconds for the rounds of a pilot, and of all of them together, before they are stretched to a day."""
_PATIENCE_S, _LONGEST_S = 100.0, 120.0
"""Seconds by which another pilot must be likely to have ended to be begun, and that one may take."""
_QUICK = 100_000
"""Up to so many devices a round more is no matter."""


@dataclass(frozen=True)
class PlannedRun:
    """One run: a point with a seed."""

    run_id: str
    point: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep.

    Attributes
    ----------
    scenario
        As it was read, with its sweep.
    points, seeds, runs
        Every run is one of the points with one of the seeds; seeds vary fastest.
    """

    scenario: Scenario
    points: list[Point]
    seeds: list[int]
    runs: list[PlannedRun]

    def scenario_of(self, run: PlannedRun) -> Scenario:
        """Return what the run simulates."""
        return self.points[run.point].with_seed(run.seed)


def plan_sweep(scenario: Scenario) -> Plan:
    """Return the runs of a scenario's sweep, after checking every point.

    Raises
    ------
    ScenarioError
        With every mistake in any point.
    """
    points, seeds = points_of(scenario), seeds_of(scenario)
    runs = [PlannedRun(point.run_id(seed), point.index, seed) for point in points for seed in seeds]
    return Plan(scenario, points, seeds, runs)


def estimates(plan: Plan, report: Report = silent) -> list[Estimate | None]:
    """Return how long a run of each point is likely to take on this machine, alone on a processor.

    The beginnings of up to 40 runs are tried one after the other, in a process of their own that ends with them, and
    as far as they end within 100 s; each of the other points is taken to be like the nearest of these.
    None where a run fails, or has said nothing for two minutes.

    Parameters
    ----------
    plan
        Whose points are tried.
    report
        Told how many have been tried.
    """
    waiting = deque(_outside_in(_spread(len(plan.points), _MOST_PILOTS)))
    among, budget_s = len(waiting), min(_MOST_S, _ALL_S / max(1, len(waiting)))
    found: dict[int, Estimate | None] = {}
    began, longest_s = time.monotonic(), 0.0
    while waiting and (not found or time.monotonic() - began + longest_s < _PATIENCE_S):
        pilots = LocalProcesses(1)
        with (
            suppress(TimeoutError),
            leaving_no_process(partial(pilots.shutdown, wait=False, cancel_futures=True)),
        ):
            first = plan.points[waiting[0]].with_seed(plan.seeds[0])
            if first.devices <= _QUICK:
                with suppress(WorkerLostError):
                    pilots.submit(warm_up, first).result(_LONGEST_S)
            while waiting and (not found or time.monotonic() - began + longest_s < _PATIENCE_S):
                since = time.monotonic()
                report("trying", len(found) / among, f"{len(found)} of {among} points")
                index = waiting.popleft()
                found[index] = None
                with suppress(WorkerLostError):
                    trial = pilots.submit(pilot, plan.points[index].with_seed(plan.seeds[0]), budget_s)
                    found[index] = trial.result(_LONGEST_S)
                longest_s = max(longest_s, time.monotonic() - since)
            pilots.shutdown()
    report("trying", 1.0, f"{len(found)} of {among} points")
    return [found[min(found, key=lambda known: abs(known - point.index))] for point in plan.points]


def _outside_in(indices: list[int]) -> list[int]:
    """Order indices so that the first few of them are spread over all."""
    digits = len(indices).bit_length()
    return [indices[at] for at in sorted(range(len(indices)), key=lambda at: int(f"{at:0{digits}b}"[::-1], 2))]


def _spread(size: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `size`, evenly spread, both ends among them."""
    return [round(index * (size - 1) / max(1, min(size, most) - 1)) for index in range(min(size, most))]
