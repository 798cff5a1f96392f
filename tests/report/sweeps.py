"""Sweep directories to report on: as `fedsim sweep` leaves them, with figures that are known."""

from itertools import product
from pathlib import Path

import numpy as np

from fedsim.sweeps import store

SEEDS = (1, 2, 3)
SEPARATION, COHORT = "population.*.separation", "server.cohort"
SEPARATIONS, COHORTS = (0, 4, 8), (5, 10)


def l1(separation: int, cohort: int, seed: int) -> float:
    return round(1.0 / (1 + separation / 4) + 0.01 * cohort + 0.001 * seed, 9)


def per_day(separation: int, cohort: int) -> float:
    return 900.0 - 40 * separation - 10 * cohort


def write_sweep(directory: Path, name: str = "trade", crash: bool = False, cohorts: tuple[int, ...] = COHORTS) -> Path:
    """Write a sweep over separations and cohorts; with `crash`, the last run is one that failed for good."""
    (directory / store.RUNS).mkdir(parents=True)
    parameters = [SEPARATION, COHORT] if len(cohorts) > 1 else [SEPARATION]
    grid = list(product(SEPARATIONS, cohorts))
    points = [
        {"point": index, "values": dict(list({SEPARATION: separation, COHORT: cohort}.items())[: len(parameters)])}
        for index, (separation, cohort) in enumerate(grid)
    ]
    cases = [(f"p{index}s{seed}", index, seed) for index in range(len(grid)) for seed in SEEDS]
    for run_id, index, seed in cases:
        separation, cohort = grid[index]
        if crash and run_id == cases[-1][0]:
            store.write_crash(directory, run_id, 3, "boom")
            continue
        metrics = {
            "participation.l1_uniform": l1(separation, cohort, seed),
            "participation.l1_uniform_theory": l1(separation, cohort, 2),
            "rounds.per_day": per_day(separation, cohort),
            "rounds.shortage_share": np.nan,
            "participation.coverage": 1.0,
        }
        store.write_run(directory, run_id, seed, metrics)
    store.write_sweep(
        directory,
        {
            "name": name,
            "description": "A sweep for the tests.",
            "scenario_file": "trade.fedsim.yaml",
            "scenario": {"name": name, "seed": 1},
            "overrides": [],
            "parameters": parameters,
            "points": points,
            "seeds": list(SEEDS),
            "runs": [{"run_id": run_id, "point": index, "seed": seed} for run_id, index, seed in cases],
            "versions": {"fedsim": "0.1.0"},
            "platform": "Linux",
            "command": "fedsim sweep trade.fedsim.yaml",
            "status": "crashed" if crash else "complete",
        },
    )
    return directory
