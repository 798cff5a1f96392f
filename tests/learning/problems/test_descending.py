"""Problems that take their local steps themselves take those of their gradients, bit by bit."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.learning import LocalWork
from fedsim.learning.problems.problem import Descending, Gradients, Sampled
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.problems.softmax_regression import SoftmaxRegression

PROBLEMS: dict[str, Callable[[], Sampled]] = {
    "robust": lambda: RobustRegression(clients=9, seed=1, dimension=7, samples=13),
    "softmax": lambda: SoftmaxRegression(clients=9, seed=1, l2=0.02),
}
NORMALS = np.random.default_rng(3).normal(size=(6, 650))


@pytest.mark.parametrize("cohort", [[4, 0, 2, 4, 0, 2], [5], [1, 1, 8], [3, 3, 3, 3]])
@pytest.mark.parametrize("batch_size", [None, 1, 5])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_its_steps_are_those_of_its_gradients(kind: str, batch_size: int | None, cohort: list[int]) -> None:
    """For several optimizers, and a client that trains for one alone; what it is given stays as it is."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, extra 'data'")
    problem, clients = PROBLEMS[kind](), np.array(cohort)
    assert isinstance(problem, Descending)
    models, sizes = NORMALS[: len(cohort), : problem.dimension].copy(), np.linspace(0.05, 0.3, len(cohort))
    drawn = None
    if batch_size is not None:
        drawn = np.random.default_rng(5).integers(0, problem.samples, (3, len(cohort), batch_size))
        drawn[:, len(cohort) // 2 :] = drawn[:, : len(cohort) - len(cohort) // 2]
    start = models.copy()
    found = problem.descend(clients, models, sizes, 3, drawn)
    local = models.copy()
    for step in range(3):
        local -= sizes[:, None] * problem.select(clients, None if drawn is None else drawn[step])(local)
    np.testing.assert_array_equal(found, local - models)
    np.testing.assert_array_equal(models, start)


def test_a_gradient_is_its_formula_to_the_last_bit() -> None:
    """The residuals through r / (1 + r^2 / 2) and the mean, each step rounded as written, from tiny to huge ones."""
    problem = RobustRegression(clients=3, seed=4, dimension=4, samples=11)
    for scale in (1e-8, 1.0, 1e9):
        models = scale * NORMALS[:3, :4]
        residuals = np.matvec(problem.features, models) + problem.targets
        pulls = residuals / (0.5 * residuals * residuals + 1.0)
        expected = np.vecmat(pulls, problem.features) / 11
        np.testing.assert_array_equal(problem.gradients(np.arange(3), models), expected)


class Steeper(RobustRegression):
    """A user's problem that inherits `descend` and has gradients of its own."""

    def select(self, clients: NDArray[np.int64], samples: NDArray[np.int64] | None = None) -> Gradients:
        plain = super().select(clients, samples)
        return lambda models: 2.0 * plain(models)


class Own(Steeper):
    """Another one, which has both."""

    def descend(self, *_: object) -> NDArray[np.float64]:
        return np.full((2, 3), 7.0)


def test_gradients_of_a_users_own_are_followed() -> None:
    """By inherited steps they would not be asked for."""
    clients, models, sizes = np.array([0, 1]), NORMALS[:2, :3], np.full(2, 0.1)
    steeper, plain, own = (
        LocalWork.checked(kind(clients=2, seed=0, dimension=3, samples=5), 2, 0.1).updates(clients, models, sizes)
        for kind in (Steeper, RobustRegression, Own)
    )
    by_twice = LocalWork.checked(RobustRegression(clients=2, seed=0, dimension=3, samples=5), 2, 0.1)
    np.testing.assert_allclose(steeper, by_twice.updates(clients, models, 2.0 * sizes), rtol=1e-12)
    assert not np.allclose(steeper, plain)
    assert (own == 7.0).all()
