"""Problems that take their local steps themselves, and gradients to the last bit."""

import numpy as np
from numpy.typing import NDArray

from fedsim.learning import LocalWork
from fedsim.learning.problems.problem import Gradients
from fedsim.learning.problems.robust_regression import RobustRegression

NORMALS = np.random.default_rng(3).normal(size=(6, 650))


def test_a_gradient_is_its_formula_to_the_last_bit() -> None:
    """The residuals through r / (1 + r^2 / 2) and the mean, each step rounded as written, from tiny to huge ones."""
    problem = RobustRegression(clients=3, seed=4, dimension=4, samples=11)
    for scale in (1e-8, 1.0, 1e9):
        models = scale * NORMALS[:3, :4]
        residuals = (problem.features @ models[..., None])[..., 0] + problem.targets
        pulls = residuals / (0.5 * residuals * residuals + 1.0)
        expected = (pulls[..., None, :] @ problem.features)[..., 0, :] / 11
        np.testing.assert_array_equal(problem.gradients(np.arange(3), models), expected)


class Descends(RobustRegression):
    """A problem that takes its local steps itself."""

    def descend(self, *_: object) -> NDArray[np.float64]:
        return np.full((2, 3), 5.0)


class Steeper(Descends):
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
    steeper, plain, own, inherited = (
        LocalWork.checked(kind(clients=2, seed=0, dimension=3, samples=5), 2, 0.1).updates(clients, models, sizes)
        for kind in (Steeper, RobustRegression, Own, Descends)
    )
    by_twice = LocalWork.checked(RobustRegression(clients=2, seed=0, dimension=3, samples=5), 2, 0.1)
    np.testing.assert_allclose(steeper, by_twice.updates(clients, models, 2.0 * sizes), rtol=1e-12)
    assert not np.allclose(steeper, plain)
    assert (own == 7.0).all()
    assert (inherited == 5.0).all()
