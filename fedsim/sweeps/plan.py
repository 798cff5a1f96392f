"""The runs of a sweep: their names, how long they are likely to take, and how long they may take."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedsim.common.errors import FedsimError
from fedsim.common.instants import DAY_S
from fedsim.common.progress import Report, silent
from fedsim.scenario import Scenario
from fedsim.sweeps.executors import default_workers
from fedsim.sweeps.executors.local import LocalProcesses, WorkerLostError, leaving_no_process
from fedsim.sweeps.pilot import Estimate, pilot, total_estimate, warm_up
from fedsim.sweeps.points import Point, points_of, seeds_of
from fedsim.sweeps.store import complete_runs

_MOST_PILOTS = 40
_MOST_S, _ALL_S = 3.0, 15.0
"""Processor seconds for the rounds of a pilot, and of all of them together, before they are stretched to a day."""
_PATIENCE_S, _LONGEST_S = 100.0, 120.0
"""A pilot is begun only if it is likely to end within the former; the latter is the most that one may take."""
_QUICK = 100_000
"""Most devices of a scenario with which the process is warmed up."""
LEAST_S, TIMES, OTHERWISE_S = 600.0, 20.0, DAY_S
"""Limits of a run: at least the first, else so many times its estimate; the last if there is no estimate."""


@dataclass(frozen=True)
class PlannedRun:
    """A point with a seed."""

    run_id: str
    point: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep: every point of the scenario's `sweep` with every seed; seeds vary fastest."""

    scenario: Scenario
    points: list[Point]
    seeds: list[int]
    runs: list[PlannedRun]

    def scenario_of(self, run: PlannedRun) -> Scenario:
        """Return the scenario of a run."""
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


def estimated_times(plan: Plan, report: Report = silent) -> list[Estimate | None]:
    """Return how long a run of each point is likely to take on this machine, alone on a processor.

    Pilots, the beginnings of up to 40 runs, are tried one after the other in a process of their own, as far as they end
    within 100 s; every other point is taken to be like the nearest of these. None where a pilot fails, or does not end
    within two minutes. `report` is called with the share of pilots that were tried.
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


def plan_data(plan: Plan, directory: Path, workers: int | None, report: Report = silent) -> dict[str, Any]:
    """Return what ``fedsim plan --json`` prints: points and runs with estimated times, and what is done already."""
    found, there = estimated_times(plan, report), complete_runs(directory)
    workers = workers or default_workers()
    to_do = [run for run in plan.runs if run.run_id not in there]
    total = total_estimate(found[run.point] for run in to_do)

    def times(estimate: Estimate | None, share: float = 1.0) -> dict[str, Any]:
        if estimate is None:
            return {"estimated_s": None, "estimated_range_s": None}
        between = [estimate.low * share, estimate.high * share]
        return {"estimated_s": estimate.seconds * share, "estimated_range_s": between}

    return {
        "name": plan.scenario.name,
        "directory": str(directory),
        "points": [
            {"point": point.index, "values": point.values, **times(found[point.index])} for point in plan.points
        ],
        "seeds": plan.seeds,
        "runs": [
            {**vars(run), **times(found[run.point]), "status": "complete" if run.run_id in there else "missing"}
            for run in plan.runs
        ],
        "workers": workers,
        "estimated_cpu_s": None if total is None else total.seconds,
        **times(total, 1.0 / min(workers, max(1, len(to_do)))),
    }


def default_limit(plan: Plan) -> Callable[[PlannedRun], float]:
    """Return a function from a run to the seconds that it may take, by an estimate made when it is first needed."""
    known: dict[int, float] = {}

    def limit_s(run: PlannedRun) -> float:
        if run.point not in known:
            estimate = None
            with suppress(FedsimError, OSError, RuntimeError):
                (estimate,) = estimated_times(replace(plan, points=[plan.points[run.point]]))
            known[run.point] = OTHERWISE_S if estimate is None else max(LEAST_S, TIMES * estimate.high)
        return known[run.point]

    return limit_s
