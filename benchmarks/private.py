"""Training with privacy (quadratic, d = 2,000, cohort 25, noise correlated by a BLT) beside the same in plain numpy.

Processor time of a round, selection included, from the difference between runs of two lengths. Target: 1.5 times.
"""

import os
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from fedsim import Scenario, simulate

CLIENTS, COHORT, DIMENSION, STEPS, STEP_SIZE, SHORT, LONG = 1_000, 25, 2_000, 5, 0.02, 100, 400


def by_fedsim(rounds: int) -> None:
    learning = {"problem": {"kind": "quadratic", "dimension": DIMENSION}, "optimizers": ["fedavg"]}
    learning |= {"step_size": STEP_SIZE, "local_steps": STEPS, "evaluate_every": 10**6}
    privacy = {"mechanism": {"kind": "blt"}, "noise_multiplier": 1.0, "delta": 1e-6, "clip": 1.0, "training": "noise"}
    data = {"stop": {"rounds": rounds}, "population": [{"devices": CLIENTS, "separation": 10}]}
    data |= {"server": {"cohort": COHORT}, "records": {"gauges": None}, "learning": learning, "privacy": privacy}
    simulate(Scenario.model_validate(data))


def by_hand(rounds: int) -> None:
    rng = np.random.default_rng(0)
    scales, centres = rng.uniform(0.5, 2.0, (CLIENTS, DIMENSION)), rng.normal(size=(CLIENTS, DIMENSION))
    model, buffers = np.zeros(DIMENSION), np.zeros((4, DIMENSION))
    weights, decays = np.array([0.1, 0.05, 0.02, 0.01]), np.array([[0.9], [0.99], [0.999], [0.9999]])
    for _ in range(rounds):
        clients = rng.integers(0, CLIENTS, COHORT)
        local, scale, centre = np.repeat(model[None], COHORT, axis=0), scales[clients], centres[clients]
        for _ in range(STEPS):
            local -= STEP_SIZE * scale * (local - centre)
        local -= model
        local *= np.minimum(1.0, 1.0 / np.linalg.norm(local, axis=1))[:, None]
        noise = rng.normal(size=DIMENSION) - weights @ buffers
        buffers = decays * buffers + noise
        model = model + (local.sum(axis=0) + noise) / COHORT


def a_round_ms(work: Callable[[int], None]) -> float:
    took = []
    for rounds in (SHORT, SHORT, LONG):  # the first imports and warms up
        began = time.process_time()
        work(rounds)
        took.append(time.process_time() - began)
    return 1e3 * (took[2] - took[1]) / (LONG - SHORT)


if __name__ == "__main__":
    pairs = [(a_round_ms(by_fedsim), a_round_ms(by_hand)) for _ in range(3)]
    ours, theirs = (median(each) for each in zip(*pairs, strict=True))
    times = median(mine / other for mine, other in pairs)
    print(f"{ours:.2f} ms a round, by hand {theirs:.2f}: {times:.2f} times, load {os.getloadavg()[0]:.1f}")
