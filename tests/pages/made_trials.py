"""Trials in memory, of settings along R: sound ones, and what to spoil in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fedsim.trials.trials import COMPLETE, Trials

from .sweeps import BASE, SEPARATION

L1, PACE, LOSS = "participation.l1_uniform", "updates.per_day", "learning.fedavg.loss"
LEARNING = {"problem": "quadratic", "optimizers": ["fedavg"], "step_size": 0.1}
SOUND = (0.8, 0.4, 0.6)  # the distance from uniform at each setting


def noise(row: int, seed: int) -> float:
    return float(np.random.default_rng([row, seed]).normal())


def sound(row: int, seed: int) -> dict[str, float]:
    """Return what a run measures in which no check has anything to say."""
    trained = {"loss": 1.0 + 0.1 * row, "converged": 1.0, "late_descent": 0.01, "moved": 1.0, "diverged": 0.0}
    return {
        L1: SOUND[row % 3] + 0.01 * noise(row, seed),
        PACE: 960.0,
        "sessions.count": 1e6,
        "participation.l1_uniform_theory": 0.6,
        "participation.l1_chain": 0.01,
        "participation.l1_noise": 0.02,
        **{f"learning.fedavg.{name}": value for name, value in trained.items()},
    }


def made_trials(
    measure: Callable[[int, int], Mapping[str, float]] = sound,
    *,
    values: Sequence[int] = (0, 4, 8),
    seeds: int = 6,
    failed: Mapping[tuple[int, int], str] | None = None,
    **scenario: Any,
) -> Trials:
    """Return trials of these separations; `failed` is the status of runs (setting, seed) without a result."""
    figures = {(row, seed): measure(row, seed) for row in range(len(values)) for seed in range(seeds)}
    about = {"name": "made", "seed": 1, "learning": LEARNING} | BASE | scenario
    meta = {"scenario": about, "command": "fedsim sweep made.fedsim.yaml", "status": "complete"}
    made = Trials.in_memory("made", meta, figures)
    status = [(failed or {}).get(each, COMPLETE) for each in made.facts.select("setting", "seed").iter_rows()]
    settings = made.settings.with_columns(pl.Series(SEPARATION, values))
    return replace(
        made, parameters=(SEPARATION,), settings=settings, facts=made.facts.with_columns(status=pl.Series(status))
    )
