import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import LearningError, LocalWork
from fedsim.learning.problems.robust_regression import RobustRegression

from .cases import Quadratic, quadratic


def test_a_cohort_is_its_clients_one_at_a_time() -> None:
    """All clients of all optimizers together take the steps that each would take alone, bit by bit."""
    problem = RobustRegression(clients=9, seed=3)
    draws = stream(1, 0, Purpose.OPTIMIZER)
    clients = np.array([4, 0, 8, 4])
    models = draws.normals(np.arange(4)[:, None], np.arange(20))
    sizes = 0.3 * draws.exponentials(np.arange(4), 0)
    together = LocalWork.checked(problem, 4, 0.3).updates(clients, models, sizes)
    for m, (client, model) in enumerate(zip(clients, models, strict=True)):
        y = model[None].copy()
        for _ in range(4):
            y -= sizes[m] * problem.gradients(np.array([client]), y)
        np.testing.assert_array_equal(together[m], y[0] - model)


def test_local_steps_approach_the_clients_own_optimum() -> None:
    """On a quadratic, K steps leave (1 - alpha s)^K of the way to the centre."""
    problem = quadratic()
    sizes = 0.1 * np.array([0.5, 2.0])
    deltas = LocalWork.checked(problem, 3, 0.1).updates(np.array([2, 5]), np.ones((2, 3)), sizes)
    share = 1 - (1 - sizes) ** 3
    np.testing.assert_allclose(deltas, share[:, None] * (problem.centres[[2, 5]] - 1.0))


def test_the_models_handed_in_stay_as_they_are() -> None:
    """Training works on copies."""
    models = np.ones((1, 3))
    LocalWork.checked(quadratic(), 2, 0.1).updates(np.array([0]), models, np.array([0.1]))
    np.testing.assert_array_equal(models, 1.0)


def test_gradients_of_a_wrong_shape_are_refused() -> None:
    """A shape that numpy would broadcast is an error all the same."""

    class Summed(Quadratic):
        def gradients(self, clients: NDArray[np.int64], models: NDArray[np.float64]) -> NDArray[np.float64]:
            total: NDArray[np.float64] = super().gradients(clients, models).sum(axis=0)
            return total

    with pytest.raises(LearningError, match=r"gradients has the shape \(3,\), expected \(2, 3\)"):
        LocalWork.checked(Summed(np.zeros((4, 3))), 1, 0.1).updates(np.array([0, 1]), np.ones((2, 3)), np.ones(2))


def test_minibatches_take_the_mean_over_the_samples_drawn() -> None:
    """Step by step, client by client, on the rows that the batch names."""
    problem = RobustRegression(clients=6, seed=2, dimension=3, samples=8)
    work = LocalWork.checked(problem, 3, 0.2, batch_size=4)
    clients, models = np.array([5, 1]), np.ones((2, 3))
    batches = work.minibatches(stream(4, 0, Purpose.OPTIMIZER), 7, clients)
    assert batches is not None
    assert batches.shape == (3, 2, 4)
    deltas = work.updates(clients, models, np.array([0.2, 0.1]), batches)
    for m, client in enumerate(clients):
        y = models[m].copy()
        for rows in batches[:, m]:
            features, targets = problem.features[client][rows], problem.targets[client][rows]
            residuals = features @ y + targets
            y -= (0.2, 0.1)[m] * np.mean([r / (1 + r * r / 2) * a for r, a in zip(residuals, features, strict=True)], 0)
        np.testing.assert_allclose(deltas[m], y - models[m], rtol=1e-12)


def test_a_client_draws_the_same_samples_whoever_is_beside_it() -> None:
    """A draw belongs to (client, round, step): company does not matter, the round does."""
    work = LocalWork.checked(RobustRegression(clients=6, seed=0, samples=50), 2, 0.1, batch_size=5)
    draws = stream(3, 1, Purpose.OPTIMIZER)
    alone, beside, later = (
        work.minibatches(draws, number, np.array(clients)) for number, clients in [(4, [2]), (4, [0, 2]), (5, [2])]
    )
    assert alone is not None
    assert beside is not None
    assert later is not None
    np.testing.assert_array_equal(alone[:, 0], beside[:, 1])
    assert not np.array_equal(alone, later)


def test_samples_are_drawn_evenly() -> None:
    """30,000 draws among 10: chi-square with 9 degrees of freedom, above 33.7 once in 10,000 times."""
    work = LocalWork.checked(RobustRegression(clients=100, seed=0, samples=10), 3, 0.1, batch_size=10)
    batches = [work.minibatches(stream(0, 0, Purpose.OPTIMIZER), t, np.arange(100)) for t in range(10)]
    counts = np.bincount(np.ravel([batch for batch in batches if batch is not None]), minlength=10)
    assert counts.sum() == 30_000
    assert ((counts - 3000) ** 2 / 3000).sum() < 33.7


def test_minibatches_need_samples() -> None:
    """A problem that knows none is named."""
    with pytest.raises(LearningError, match=r"^batch_size: Quadratic has no samples to draw minibatches from"):
        LocalWork.checked(quadratic(), 1, 0.1, batch_size=3)
    with pytest.raises(LearningError, match="batch_size must be at least 1, got 0"):
        LocalWork.checked(RobustRegression(clients=1, seed=0), 1, 0.1, batch_size=0)
