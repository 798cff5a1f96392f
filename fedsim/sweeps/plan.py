"""What a sweep is going to run: its runs by name, and how long they are likely to take."""

import time
from dataclasses import dataclass
from itertools import count

from fedsim.common.errors import FedsimError
from fedsim.scenario import Scenario
from fedsim.sweeps.points import Point, points_of, seeds_of

MOST_PILOTS = 40
_ALL_PILOTS_S = 12.0
_FIRST_ROUNDS = 8


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


def estimate_seconds(plan: Plan) -> list[float | None]:
    """Return how long a run of each point is likely to take on this machine, alone on a processor.

    The first rounds of up to 40 points are run and extrapolated; each of the others is taken to be like the nearest of
    these. Good to a factor of about two: what a day brings, the first rounds may not show. None where they fail.
    """
    chosen = _spread(len(plan.points), MOST_PILOTS)
    budget_s = min(0.5, _ALL_PILOTS_S / len(chosen))
    if plan.points:
        _seconds(plan.points[0].scenario, 1)  # what is imported once is not the runs' own time
    measured = {index: _pilot(plan.points[index].with_seed(plan.seeds[0]), budget_s) for index in chosen}
    return [measured[min(chosen, key=lambda known: abs(known - point.index))] for point in plan.points]


def _spread(size: int, most: int) -> list[int]:
    """Return at most `most` of the numbers below `size`, evenly spread, both ends among them."""
    return [round(index * (size - 1) / max(1, min(size, most) - 1)) for index in range(min(size, most))]


def _pilot(scenario: Scenario, budget_s: float) -> float | None:
    """Extrapolate the time of a run from the times of two short ones: a fixed part, and one that grows with it."""
    before: tuple[float, float] | None = None
    for number in count():
        measured = _seconds(scenario, _FIRST_ROUNDS * 3**number)
        if measured is None:
            return None
        share, seconds = measured
        if share >= 1:
            return seconds
        if before is not None and seconds > budget_s:
            slope = (seconds - before[1]) / (share - before[0]) if share > before[0] else seconds / share
            return seconds + max(0.0, slope) * (1 - share)
        before = share, seconds
    return None


def _seconds(scenario: Scenario, rounds: int) -> tuple[float, float] | None:
    """Run the first rounds; return which share of the whole they are and the seconds they took, or None on failure."""
    from fedsim.experiment.run import simulate

    stop = scenario.stop
    last = stop.rounds is not None and stop.rounds <= rounds
    short = scenario.model_copy(update={"stop": stop if last else stop.model_copy(update={"rounds": rounds})})
    began = time.perf_counter()
    try:
        result = simulate(short)
    except (FedsimError, ArithmeticError, MemoryError):
        return None
    seconds = time.perf_counter() - began
    of_rounds = min(1.0, rounds / stop.rounds) if stop.rounds is not None else 0.0
    of_time = min(1.0, result.simulated_s / stop.duration) if stop.duration is not None else 0.0
    whole = last or len(result.rounds) < rounds
    return (1.0 if whole else max(of_rounds, of_time, 1e-9)), seconds
