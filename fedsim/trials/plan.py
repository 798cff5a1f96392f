"""From a scenario with a sweep to its points and runs: names, every mistake, and how long the runs may take."""

import hashlib
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedsim._version import __version__
from fedsim.common.errors import FedsimError, Mistake, ScenarioError
from fedsim.common.instants import DAY_S
from fedsim.common.progress import Report, silent
from fedsim.run.budget import Need, address_space_bytes, refusals
from fedsim.run.preflight import checked
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import WITHOUT_EFFECT, Sweep
from fedsim.trials.executors import default_workers
from fedsim.trials.executors.local import LocalProcesses, WorkerLostError
from fedsim.trials.own_modules import file_of
from fedsim.trials.pilot import Estimate, pilot, total_estimate, warm_up
from fedsim.trials.store import SWEEP_FILE, complete_runs, stalled_runs
from fedsim.trials.worker import Inputs, inputs_of

_MAX_RUNS = 1_000_000
_MOST_MISTAKES = 100
_POINT_BYTES, _VALUE_BYTES = 20_000, 1_000  # of a point, and for each key or value that is written
_MOST_PILOTS = 40
_MOST_S, _ALL_S = 3.0, 15.0
"""Processor seconds for the rounds of a pilot, and of all of them together, before they are stretched to a day."""
_PATIENCE_S, _LONGEST_S, _FEWEST = 60.0, 120.0, 3
"""After the fewest, a pilot is begun only if it is likely to end within the first; the second is the most for one."""
_QUICK = 100_000
"""Most devices of a scenario with which the process is warmed up."""
LEAST_S, TIMES, OTHERWISE_S = 600.0, 20.0, DAY_S
"""Limits of a run: at least the first, else so many times its estimate; the last if there is no estimate."""


@dataclass(frozen=True)
class Point:
    """One setting of a sweep."""

    index: int  # from 0, in the order of the grid, whose last path varies fastest
    values: dict[str, Any]  # of the swept paths
    scenario: Scenario
    digest: str  # of everything that its runs depend on, except the seed
    inputs: Inputs = field(default_factory=Inputs)

    def run_id(self, seed: int) -> str:
        """Return the name of the run with this seed: a hash of configuration, seed and the version of fedsim."""
        return hashlib.sha256(f"{self.digest}:{seed}:{__version__}".encode()).hexdigest()[:20]

    def with_seed(self, seed: int) -> Scenario:
        """Return the scenario of the run with this seed."""
        return self.scenario.model_copy(update={"seed": seed})


def seeds_of(scenario: Scenario) -> list[int]:
    """Return the seeds that every point is run with."""
    seeds = 1 if scenario.sweep is None else scenario.sweep.seeds
    return list(range(scenario.seed, scenario.seed + seeds)) if isinstance(seeds, int) else list(seeds)


def points_of(scenario: Scenario) -> list[Point]:
    """Return the points of a scenario's sweep, each checked before it is run; one point without a sweep.

    A `ScenarioError` has every mistake in any point, at the place of the value in the sweep that makes it; it also says
    that all points are excluded, or that there are too many runs.
    """
    sweep = scenario.sweep or Sweep()
    size = sweep.count * (_POINT_BYTES + _VALUE_BYTES * scenario.written)
    if too_much := refusals(scenario, [Need(("sweep",), f"a sweep of {sweep.count:,} points", size)]):
        raise ScenarioError(too_much)
    points: list[Point] = []
    mistakes: dict[Mistake, list[str]] = {}  # and the values of each point that has it
    tried = 0
    for values, places in _combinations(scenario, sweep):
        if sweep.excludes(values):
            continue
        tried += 1
        try:
            there = scenario.with_values({"sweep": None, "expect": [], "drift": None, **values}, places)
            checked(there)
        except ScenarioError as error:
            for mistake in error.mistakes:
                mistakes.setdefault(mistake, []).append(_at(mistake, values, places, sweep.tuned))
            if sum(map(len, mistakes.values())) >= _MOST_MISTAKES:
                break
        else:
            points.append(Point(len(points), values, there, *_digest(there)))
    if not mistakes and not points:
        mistakes[scenario.mistake(("sweep", "exclude"), "leaves no point to run")] = [""]
    runs = len(points) * len(seeds_of(scenario))
    if runs > _MAX_RUNS:
        message = f"makes {runs:,} runs with {len(points):,} points; at most {_MAX_RUNS:,} are possible"
        mistakes[scenario.mistake(("sweep", "seeds"), message)] = [""]
    if mistakes:
        raise ScenarioError([_with_settings(mistake, settings, tried) for mistake, settings in mistakes.items()])
    return points


def _combinations(scenario: Scenario, sweep: Sweep) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield the values of each combination by path, and the places where they are written."""

    def place(kind: str, path: str, index: int) -> str:
        return scenario.mistake(("sweep", kind, path, index), "").place

    together = range(max((len(values) for values in sweep.zip.values()), default=1))
    for *choice, row in itertools.product(*(range(len(values)) for values in sweep.grid.values()), together):
        at = dict(zip(sweep.grid, choice, strict=True))
        values = {path: sweep.grid[path][index] for path, index in at.items()}
        places = {path: place("grid", path, index) for path, index in at.items()}
        for path, listed in sweep.zip.items():
            values[path], places[path] = listed[row], place("zip", path, row)
        yield values, places


def _at(mistake: Mistake, values: Mapping[str, Any], places: Mapping[str, str], tuned: Sequence[str]) -> str:
    """Return the values of a point at which there is a mistake; empty if the place of the mistake shows them."""
    shown = [] if mistake.place in places.values() else [each for each in values.items() if each[0] not in tuned]
    return ", ".join(f"{path}: {json.dumps(value, ensure_ascii=False)}" for path, value in shown)


def _with_settings(mistake: Mistake, settings: Sequence[str], tried: int) -> Mistake:
    """Add to a mistake at which of the points that were tried it is, unless it is at all of several."""
    if not settings[0] or 1 < tried == len(settings):
        return mistake
    more = ", and at other points" if len(settings) > 1 else ""
    return replace(mistake, message=f"{mistake.message} (at {settings[0]}{more})")


def _digest(scenario: Scenario) -> tuple[str, Inputs]:
    """Hash the resolved configuration and the contents of what it names: files, and modules of the user's own."""
    resolved = scenario.model_dump(mode="json", exclude={*WITHOUT_EFFECT, "seed"})
    digest = hashlib.sha256(json.dumps(resolved, sort_keys=True).encode())
    inputs = inputs_of(scenario)
    named = {Path(path): content for path, content in inputs.files.items()}
    named |= {file: content for name, content in inputs.modules.items() if (file := file_of(name)[0]) is not None}
    for file in sorted(named):
        digest.update(bytes.fromhex(named[file]))
    return digest.hexdigest(), inputs


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
    droppable: frozenset[str] = frozenset()  # runs that a decision does only while their setting may be the best

    def scenario_of(self, run: PlannedRun) -> Scenario:
        """Return the scenario of a run."""
        return self.points[run.point].with_seed(run.seed)


def plan_sweep(scenario: Scenario) -> Plan:
    """Return the runs of a scenario's sweep; a `ScenarioError` has every mistake in any point."""
    points, seeds = points_of(scenario), seeds_of(scenario)
    runs = [PlannedRun(point.run_id(seed), point.index, seed) for point in points for seed in seeds]
    return Plan(scenario, points, seeds, runs)


def estimated_times(plan: Plan, progress: Report = silent) -> list[Estimate | None]:
    """Return how long a run of each point is likely to take on this machine, alone on a processor.

    Pilots, the beginnings of up to 40 runs, are tried one after the other in a process of their own, as far as they end
    within a minute, but three at least; every other point is taken to be like the nearest of these that trains as many
    optimizers. None where a pilot fails, or does not end within two minutes. `progress` is called with the share of
    pilots that were tried.
    """
    learning, order = [point.scenario.learning for point in plan.points], _tried_first(len(plan.points))
    trained = [(0, False) if each is None else (len(each.optimizers), each.loss_parts) for each in learning]
    kinds = {trained[index]: index for index in reversed(order)}.values()  # the stages of a decision differ so
    waiting, fewest = deque(dict.fromkeys([*kinds, *order])), max(_FEWEST, len(kinds))
    among, budget_s = len(waiting), min(_MOST_S, _ALL_S / max(1, len(waiting)))
    tried: dict[int, Estimate | None] = {}
    began, longest_s = time.monotonic(), 0.0
    while waiting and (len(tried) < fewest or time.monotonic() - began + longest_s < _PATIENCE_S):
        with suppress(TimeoutError), LocalProcesses(1) as pilots:
            first = plan.points[waiting[0]].with_seed(plan.seeds[0])
            if first.devices <= _QUICK:
                with suppress(WorkerLostError):
                    pilots.submit(warm_up, first).result(_LONGEST_S)
            while waiting and (len(tried) < fewest or time.monotonic() - began + longest_s < _PATIENCE_S):
                since = time.monotonic()
                progress("trying", len(tried) / among, f"{len(tried)} of {among} points")
                index = waiting.popleft()
                tried[index] = None
                with suppress(WorkerLostError):
                    trial = pilots.submit(pilot, plan.points[index].with_seed(plan.seeds[0]), budget_s)
                    tried[index] = trial.result(_LONGEST_S)
                longest_s = max(longest_s, time.monotonic() - since)
    progress("trying", 1.0, f"{len(tried)} of {among} points")
    return [tried[min(tried, key=lambda k: (trained[k] != kind, abs(k - at)))] for at, kind in enumerate(trained)]


def total_time(plan: Plan, estimates: list[Estimate | None], to_do: list[PlannedRun]) -> Estimate | None:
    """Return how long runs take in all: at least those that no decision drops, at most all."""
    most = total_estimate(estimates[run.point] for run in to_do)
    least = total_estimate(estimates[run.point] for run in to_do if run.run_id not in plan.droppable)
    if most is None or least is None:
        return None
    return Estimate((least.seconds + most.seconds) / 2, least.low, most.high)


def _tried_first(size: int) -> list[int]:
    """Return some of the numbers below `size`, evenly spread, in an order whose first few are spread over all."""
    most = min(size, _MOST_PILOTS)
    order = sorted(range(most), key=lambda at: int(f"{at:0{most.bit_length()}b}"[::-1], 2))
    return [round(at * (size - 1) / max(1, most - 1)) for at in order]


def plan_data(plan: Plan, directory: Path, workers: int | None, progress: Report = silent) -> dict[str, Any]:
    """Return what ``fedsim plan --json`` prints: points and runs with estimated times, and what is done already."""
    likely, workers = estimated_times(plan, progress), workers or default_workers()
    status = dict[str, str]()
    for folder in (directory, *(file.parent for file in directory.glob(f"*/{SWEEP_FILE}"))):  # a decision's stages
        status |= dict.fromkeys(stalled_runs(folder), "stalled") | dict.fromkeys(complete_runs(folder), "complete")
    to_do = [run for run in plan.runs if run.run_id not in status]
    total = total_time(plan, likely, to_do)

    def times(estimate: Estimate | None, share: float = 1.0) -> dict[str, Any]:
        if estimate is None:
            return {"estimated_s": None, "estimated_range_s": None}
        between = [estimate.low * share, estimate.high * share]
        return {"estimated_s": estimate.seconds * share, "estimated_range_s": between}

    return {
        "name": plan.scenario.name,
        "directory": str(directory),
        "points": [
            {"point": point.index, "values": point.values, **times(likely[point.index])} for point in plan.points
        ],
        "seeds": plan.seeds,
        "runs": [
            {**vars(run), **times(likely[run.point]), "status": status.get(run.run_id, "missing")} for run in plan.runs
        ],
        "workers": workers,
        "estimated_cpu_s": None if total is None else total.seconds,
        "address_space_bytes": max(address_space_bytes(point.scenario) for point in plan.points),
        **times(total, 1.0 / min(workers, max(1, len(to_do)))),
    }


def default_limit(plan: Plan) -> Callable[[PlannedRun], float]:
    """Return a function from a run to the seconds that it may take, by an estimate made when it is first needed."""

    @cache
    def of_point(index: int) -> float:
        estimate = None
        with suppress(FedsimError, OSError, RuntimeError):
            (estimate,) = estimated_times(replace(plan, points=[plan.points[index]]))
        return OTHERWISE_S if estimate is None else max(LEAST_S, TIMES * estimate.high)

    return lambda run: of_point(run.point)
