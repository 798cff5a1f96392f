"""Where cohorts vary in size: pulls, not shares, say where models come to rest."""

import numpy as np
import pytest

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, biases, build_optimizer, frequencies, pulls, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.problems.quadratic import Quadratic

from .cases import tables

TURNS = [[0], [1], [2], [3], [4], [5, 6, 7, 8, 9]]
LENGTH = 0.002
KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "fedavg": ("fedavg", {}),
    "pulls": ("debiased_fedavg", {}),
    "shares": ("debiased_fedavg", {"counts": "shares"}),
    "oracle": ("oracle_weighted", {}),
}


def around(centres: list[float]) -> Quadratic:
    """One parameter; client i wants it to be its centre. All centres together have the mean 0."""
    problem = Quadratic(clients=len(centres), seed=0, dimension=1)
    problem.centres, problem.optimum = np.array(centres)[:, None], np.zeros(1)
    return problem


def measured(cohorts: list[list[int]], problem: Quadratic) -> dict[str, float]:
    log = tables(cohorts)
    weights, shares = pulls(log[1], problem.clients), frequencies(log[1], problem.clients)
    optimizers = {
        name: build_optimizer(kind, options, pi=weights, frequency=weights, shares=shares)
        for name, (kind, options) in KINDS.items()
    }
    course = Course(Cohorts.read(*log, problem.clients), optimizers, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, 1, LENGTH))
    return biases(problem, optimizers, trained.ends, weights, local_steps=1, step_size=LENGTH)


@pytest.fixture(scope="module")
def ten() -> dict[str, float]:
    """Ten clients, in turn alone or in five: all report equally often. The optimum is at 0."""
    return measured(TURNS * 1500, around([4.0] * 5 + [-4.0] * 5))


@pytest.mark.parametrize(("name", "away"), [("fedavg", 8 / 3), ("shares", 8 / 3), ("pulls", 0), ("oracle", 0)])
def test_only_counting_pulls_and_the_oracle_remove_the_bias(ten: dict[str, float], name: str, away: float) -> None:
    """Pulls of 1/6 for five and 1/30 for the others: FedAvg rests at 4 (5/6 - 1/6), counting shares changes nothing."""
    assert ten[f"learning.{name}.bias_predicted"] == pytest.approx(away, abs=0.02)
    assert ten[f"learning.{name}.bias"] == pytest.approx(away, abs=0.06)
    assert ten[f"learning.{name}.bias_error"] < 0.05


def test_counting_shares_can_be_worse_than_counting_nothing() -> None:
    """Those who come often come in large cohorts: FedAvg is even, and dividing by shares makes it uneven."""
    cohorts = [[0, 1, 2, 3], [0, 1, 2, 3], [4], [0, 1, 2, 3], [0, 1, 2, 3]] * 1000
    figures = measured(cohorts, around([1.0] * 4 + [-4.0]))
    assert figures["learning.fedavg.bias"] < 0.05
    assert figures["learning.pulls.bias"] < 0.05
    assert figures["learning.shares.bias"] > 0.5
    assert figures["learning.shares.bias_error"] < 0.1
