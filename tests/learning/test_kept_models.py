"""What is kept of the models: the mean over the last half, a drawn one, the last one."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, FedAvg, LocalWork, Optimizer, replay_together
from fedsim.learning.cohorts import Cohorts

from .cases import drawn_cohorts, quadratic, tables


def course(rounds: int, optimizers: dict[str, Optimizer]) -> Course:
    log = tables(drawn_cohorts(rounds, clients=7, size=3))
    return Course(Cohorts.read(*log, 7), optimizers, stream(1, 0, Purpose.OPTIMIZER))


class Recorder(FedAvg):
    """FedAvg that tells the models it made."""

    def __init__(self) -> None:
        object.__setattr__(self, "models", [])

    models: list[NDArray[np.float64]]

    def apply(
        self, state: None, model: NDArray[np.float64], cohort: Cohort, deltas: NDArray[np.float64]
    ) -> tuple[None, NDArray[np.float64]]:
        state, after = super().apply(state, model, cohort, deltas)
        self.models.append(after)
        return state, after


def test_the_average_is_over_the_last_half_and_the_output_is_one_of_the_run() -> None:
    """Of nine rounds, the models after the fifth to the ninth; the drawn one is that of the drawn round."""
    recorder = Recorder()
    [trained] = replay_together([course(9, {"it": recorder})], LocalWork.checked(quadratic(7), 1, 0.1))
    end = trained.ends["it"]
    np.testing.assert_allclose(end.average, np.mean(recorder.models[4:], axis=0), rtol=1e-12)
    np.testing.assert_array_equal(end.drawn, recorder.models[end.drawn_round])
    np.testing.assert_array_equal(end.last, recorder.models[-1])


@pytest.mark.long
def test_the_output_is_drawn_uniformly() -> None:
    """2,000 seeds among 10 rounds: chi-square with 9 degrees of freedom, above 33.7 once in 10,000 times."""
    cohorts = Cohorts.read(*tables([[0]] * 10), 1)
    courses = [Course(cohorts, {"it": FedAvg()}, stream(seed, 0, Purpose.OPTIMIZER)) for seed in range(2000)]
    drawn = replay_together(courses, LocalWork.checked(quadratic(1, 1), 1, 0.1), evaluate_every=10)
    counts = np.bincount([trained.ends["it"].drawn_round for trained in drawn], minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 33.7


def test_an_overflow_is_noticed_in_its_round() -> None:
    """A model whose length cannot be told is lost, though each of its numbers is finite."""

    class Leap(FedAvg):
        def apply(
            self, state: None, model: NDArray[np.float64], cohort: Cohort, _deltas: NDArray[np.float64]
        ) -> tuple[None, NDArray[np.float64]]:
            return state, model + (1e200 if cohort.round == 2 else 0.0)

    courses = [course(6, {"leap": Leap(), "fedavg": FedAvg()})]
    [trained] = replay_together(courses, LocalWork.checked(quadratic(7), 1, 0.1))
    assert trained.table.filter(optimizer="leap")["round"].to_list() == [-1, 0, 1, 2]
    assert np.isnan(trained.table.filter(optimizer="leap")["loss"][-1])
    assert np.isnan(trained.ends["leap"].average).all()
    assert len(trained.table.filter(optimizer="fedavg")) == 7
