"""Several logs side by side, and what is kept of the models."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, FedAvg, LocalWork, Optimizer, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.amplified import AmplifiedFedAvg, AmplifiedScaffold
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import FedVarp, Mifa
from fedsim.learning.optimizers.scaffold import Scaffold
from fedsim.learning.problems.robust_regression import RobustRegression

from .cases import drawn_cohorts, quadratic, tables

EVERY: dict[str, Optimizer] = {
    "fedavg": FedAvg(),
    "debiased": DebiasedFedAvg(),
    "varp": FedVarp(),
    "au": FedAu(),
    "mifa": Mifa(),
    "scaffold": Scaffold(),
    "amplified_fedavg": AmplifiedFedAvg(4, 2.0),
    "amplified_scaffold": AmplifiedScaffold(4, 2.0),
    "focus": Focus(),
}


def course(rounds: int, replicate: int = 0, optimizers: dict[str, Optimizer] | None = None) -> Course:
    log = tables(drawn_cohorts(rounds, clients=7, size=3, seed=replicate))
    return Course(Cohorts.read(*log, 7), optimizers or EVERY, stream(1, replicate, Purpose.OPTIMIZER))


@pytest.mark.parametrize("batch_size", [None, 3])
def test_side_by_side_is_one_by_one_to_the_last_bit(batch_size: int | None) -> None:
    """Logs of different lengths, with different optimizers: tables and models are those of each alone."""
    problem = RobustRegression(clients=7, seed=1, dimension=4, samples=6)
    work = LocalWork.checked(problem, 3, 0.1, batch_size)
    courses = [course(30, 0), course(12, 1, {"it": FedAvg()}), course(0, 2), course(21, 3)]
    together = replay_together(courses, work, evaluate_every=4)
    for trained, alone in zip(together, courses, strict=True):
        [expected] = replay_together([alone], work, evaluate_every=4)
        assert trained.table.equals(expected.table)
        for name, end in expected.ends.items():
            np.testing.assert_array_equal(trained.ends[name].last, end.last)
            np.testing.assert_array_equal(trained.ends[name].average, end.average)
            assert trained.ends[name].drawn_round == end.drawn_round


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
    [trained] = replay_together([course(9, 0, {"it": recorder})], LocalWork.checked(quadratic(7), 1, 0.1))
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

    courses = [course(6, 0, {"leap": Leap(), "fedavg": FedAvg()})]
    [trained] = replay_together(courses, LocalWork.checked(quadratic(7), 1, 0.1))
    assert trained.table.filter(optimizer="leap")["round"].to_list() == [-1, 0, 1, 2]
    assert np.isnan(trained.table.filter(optimizer="leap")["loss"][-1])
    assert np.isnan(trained.ends["leap"].average).all()
    assert len(trained.table.filter(optimizer="fedavg")) == 7
