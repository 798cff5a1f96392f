"""Sweep directories to report on: as `fedsim sweep` leaves them, with figures that are known."""

from collections.abc import Callable, Container, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.trials import store

SEEDS = (1, 2, 3)
SEPARATION, COHORT, COOLDOWN = "population.*.separation", "server.cohort", "population.*.cooldown"
SEPARATIONS, COHORTS = (0, 4, 8), (5, 10)
BASE = {"population": [{"devices": 200}], "stop": {"rounds": 400}, "server": {"cohort": 5}}


def l1(separation: int, cohort: int, seed: int) -> float:
    return round(1.0 / (1 + separation / 4) + 0.01 * cohort + 0.001 * seed, 9)


def per_day(separation: int, cohort: int) -> float:
    return 900.0 - 40 * separation - 10 * cohort


def write_sweep(directory: Path, name: str = "trade", crash: bool = False, cohorts: tuple[int, ...] = COHORTS) -> Path:
    """Write a sweep over separations and cohorts; with `crash`, the last run is one that failed for good."""
    swept = [SEPARATION, COHORT] if len(cohorts) > 1 else [SEPARATION]
    grid = list(product(SEPARATIONS, cohorts))
    points = [dict(zip(swept, pair, strict=False)) for pair in grid]

    def measure(index: int, seed: int) -> dict[str, float]:
        separation, cohort = grid[index]
        return {
            "participation.l1_uniform": l1(separation, cohort, seed),
            "participation.l1_uniform_theory": l1(separation, cohort, 2),
            "updates.per_day": per_day(separation, cohort),
            "rounds.shortage_share": np.nan,
            "participation.coverage": 1.0,
        }

    crashed = {(len(grid) - 1, SEEDS[-1])} if crash else set[tuple[int, int]]()
    return write_points(directory, points, measure, name=name, crashed=crashed)


def write_points(
    directory: Path,
    points: Sequence[dict[str, Any]],
    measure: Callable[[int, int], dict[str, float]],
    *,
    name: str = "trade",
    crashed: Container[tuple[int, int]] = (),
    missing: Container[tuple[int, int]] = (),
    seeds: Sequence[int] = SEEDS,
    scenario: dict[str, Any] | None = None,
) -> Path:
    """Write a sweep of these points with what `measure` gives for a point's number and a seed.

    Runs (point, seed) that `crashed` have no result but a note; those that are `missing` were never done.
    """
    (directory / store.RUNS).mkdir(parents=True)
    cases = [(f"p{index}s{seed}", index, seed) for index in range(len(points)) for seed in seeds]
    for run_id, index, seed in cases:
        if (index, seed) in crashed:
            store.write_crash(directory, run_id, 3, "boom")
        elif (index, seed) not in missing:
            store.write_run_results(directory, run_id, seed, measure(index, seed))
    store.write_sweep(
        directory,
        {
            "name": name,
            "scenario_file": "trade.fedsim.yaml",
            "scenario": {"name": name, "description": "A sweep for the tests.", "seed": 1} | BASE | (scenario or {}),
            "overrides": [],
            "parameters": list(points[0]),
            "points": [{"point": index, "values": values} for index, values in enumerate(points)],
            "seeds": list(seeds),
            "runs": [{"run_id": run_id, "point": index, "seed": seed} for run_id, index, seed in cases],
            "versions": {"fedsim": "0.1.0"},
            "platform": "Linux",
            "command": "fedsim sweep trade.fedsim.yaml",
            "status": "crashed" if crashed else "interrupted" if missing else "complete",
        },
    )
    return directory
