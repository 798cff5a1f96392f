"""The paper's synthetic experiment: 20 groups of 5 clients, p_g proportional to g^-1.5, one group a round."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import FedAvg, Optimizer, replay, summarise
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.problems.robust_regression import RobustRegression

from .cases import tables

ROUNDS, GROUPS, CLIENTS = 8_000, 20, 100
WEIGHTS = np.arange(1.0, GROUPS + 1) ** -1.5


def groups(weights: NDArray[np.float64], separation: int) -> list[int]:
    """Return the group of each round, chosen by weight among those not in the last `separation` rounds."""
    uniforms = stream(11, separation, Purpose.SELECTION).uniforms(0, np.arange(ROUNDS))
    free_again, chosen = np.zeros(GROUPS, dtype=int), []
    for t, uniform in enumerate(uniforms):
        mass = np.cumsum(np.where(free_again <= t, weights, 0.0))
        chosen.append(int(np.searchsorted(mass, uniform * mass[-1])))
        free_again[chosen[-1]] = t + 1 + separation
    return chosen


@cache
def figures(data_seed: int, separation: int | None) -> dict[str, float]:
    """Return the summary of both optimizers; of FedAvg under uniform choice where `separation` is None."""
    both: dict[str, Optimizer] = {"fedavg": FedAvg(), "debiased": DebiasedFedAvg()}
    if separation is None:
        cohorts, optimizers = groups(np.ones(GROUPS), 0), {"fedavg": both["fedavg"]}
    else:
        cohorts, optimizers = groups(WEIGHTS, separation), both
    problem = RobustRegression(clients=CLIENTS, seed=0, data_seed=data_seed)
    log = tables([list(range(5 * g, 5 * g + 5)) for g in cohorts])
    return summarise(replay(problem, optimizers, *log, local_steps=5, step_size=0.1, evaluate_every=10))


@pytest.mark.long
def test_the_papers_claims() -> None:
    """FedAvg is biased, less so the longer clients wait; Debiased FedAvg does as well as uniform choice."""
    by_separation = {separation: figures(2, separation) for separation in (0, 4, 8, 12, 16)}
    uniform = figures(2, None)
    for each in (*by_separation.values(), uniform):
        assert all(value == 1.0 for name, value in each.items() if name.endswith(".converged"))
    at_once = by_separation[0]
    assert at_once["learning.fedavg.grad_norm"] >= 5 * at_once["learning.debiased.grad_norm"]
    losses = [by_separation[separation]["learning.fedavg.loss"] for separation in (0, 4, 8, 12)]
    assert losses == sorted(losses, reverse=True)
    for each in by_separation.values():
        assert each["learning.debiased.loss"] == pytest.approx(uniform["learning.fedavg.loss"], abs=2e-4)


@pytest.mark.long
def test_a_run_that_has_not_converged_says_so() -> None:
    """With alpha = -26 the start is so far away that 8,000 rounds do not suffice."""
    metrics = figures(16, 0)
    assert metrics["learning.fedavg.converged"] == metrics["learning.debiased.converged"] == 0.0
