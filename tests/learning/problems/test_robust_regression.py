import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import LearningError
from fedsim.learning.problems.robust_regression import RobustRegression


def objective(problem: RobustRegression, client: int, model: NDArray[np.float64]) -> float:
    """Return f_i, written out sample by sample."""
    residuals = [
        sum(a * x for a, x in zip(row, model, strict=True)) + b
        for row, b in zip(problem.features[client], problem.targets[client], strict=True)
    ]
    return float(np.mean([np.log(1 + r * r / 2) for r in residuals]))


def slope(problem: RobustRegression, client: int, model: NDArray[np.float64], step: float = 1e-5) -> list[float]:
    """Return the gradient of f_i by central differences."""
    return [
        (objective(problem, client, model + e) - objective(problem, client, model - e)) / (2 * step)
        for e in step * np.eye(problem.dimension)
    ]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), client=st.integers(0, 4), where=st.integers(0, 10**6))
def test_gradients_are_the_slopes_of_the_objective(seed: int, client: int, where: int) -> None:
    """Each gradient agrees with central differences of f_i."""
    problem = RobustRegression(clients=5, seed=seed, dimension=4, samples=7)
    model = 3.0 * stream(where, 0, Purpose.OPTIMIZER).normals(0, np.arange(4))
    slopes = problem.gradients(np.array([client]), model[None])[0]
    np.testing.assert_allclose(slopes, slope(problem, client, model), rtol=1e-6, atol=1e-8)


def test_a_batch_is_its_clients_one_by_one() -> None:
    """Rows of a batch do not touch each other, also where a client occurs twice; further axes broadcast."""
    problem = RobustRegression(clients=8, seed=1)
    clients = np.array([3, 0, 3, 7])
    models = stream(2, 0, Purpose.OPTIMIZER).normals(np.arange(4)[:, None], np.arange(20))
    together = problem.gradients(clients, models)
    one_by_one = [problem.gradients(clients[b : b + 1], models[b : b + 1])[0] for b in range(4)]
    np.testing.assert_array_equal(together, one_by_one)
    np.testing.assert_array_equal(problem.gradients(clients, np.stack([models, -models]))[0], together)


def test_evaluation_is_the_mean_over_clients() -> None:
    """The loss is the mean of the f_i, the gradient norm that of the mean of their gradients."""
    problem = RobustRegression(clients=6, seed=3, dimension=3, samples=5)
    model = np.array([0.5, -1.0, 2.0])
    figures = problem.evaluate(model)
    gradients = problem.gradients(np.arange(6), np.tile(model, (6, 1)))
    assert figures["loss"] == pytest.approx(np.mean([objective(problem, i, model) for i in range(6)]))
    assert figures["grad_norm"] == pytest.approx(np.linalg.norm(gradients.mean(axis=0)))


def test_training_starts_at_the_origin() -> None:
    """The initial model is zero."""
    np.testing.assert_array_equal(RobustRegression(clients=2, seed=0, dimension=3).initial(), np.zeros(3))


def test_features_of_client_i_have_the_deviation_two_over_i() -> None:
    """A_i has entries Normal(0, variance (0.5 i)^-2) with i counted from 1."""
    problem = RobustRegression(clients=50, seed=5, samples=400)
    deviations = problem.features.std(axis=(1, 2)) * np.arange(1, 51) / 2
    # 8,000 entries each: the deviation of an estimated deviation is 1 / sqrt(16,000) = 0.8 %.
    np.testing.assert_allclose(deviations, 1.0, atol=0.04)


def test_targets_come_from_a_reference_point_and_noise() -> None:
    """Least squares finds residuals of variance 1/4, and reference points of variance 2 around alpha."""
    problem = RobustRegression(clients=40, seed=6, samples=500)
    fits = [np.linalg.lstsq(problem.features[i], problem.targets[i]) for i in range(5)]
    assert np.mean([fit[1][0] / 480 for fit in fits]) == pytest.approx(0.25, abs=0.03)
    references = np.stack([fit[0] for fit in fits])
    alpha = 10.0 * stream(6, 0, Purpose.PROBLEM).normals(2**63 - 1, 0)[0]
    assert references.mean() == pytest.approx(alpha, abs=0.6)
    assert references.var() == pytest.approx(2.0, abs=1.0)


def test_alpha_has_the_deviation_ten() -> None:
    """Over data seeds, the centre of the reference points has mean 0 and variance 100."""
    centres = []
    for seed in range(200):
        problem = RobustRegression(clients=1, seed=seed, dimension=3, samples=12)
        centres.append(np.linalg.lstsq(problem.features[0], problem.targets[0])[0].mean())
    assert np.mean(centres) == pytest.approx(0.0, abs=2.5)
    assert np.std(centres) == pytest.approx(10.0, abs=1.6)


def test_the_data_follow_their_own_seed_when_they_have_one() -> None:
    """data_seed replaces the scenario's seed, and equals it when it is not given."""
    own = RobustRegression(clients=3, seed=1, data_seed=9)
    np.testing.assert_array_equal(own.features, RobustRegression(clients=3, seed=2, data_seed=9).features)
    np.testing.assert_array_equal(own.targets, RobustRegression(clients=3, seed=9).targets)
    assert not np.array_equal(own.features, RobustRegression(clients=3, seed=1).features)


def test_a_client_keeps_its_data_when_the_federation_grows() -> None:
    """More clients, samples or dimensions leave the numbers that were there as they were."""
    small = RobustRegression(clients=3, seed=4, dimension=5, samples=6)
    large = RobustRegression(clients=300, seed=4, dimension=7, samples=9)
    np.testing.assert_array_equal(large.features[:3, :6, :5], small.features)
    more = RobustRegression(clients=3, seed=4, dimension=5, samples=9)
    np.testing.assert_allclose(more.targets[:, :6], small.targets, rtol=1e-12)


def test_data_that_would_not_fit_are_refused() -> None:
    """The message names the size and the remedy, before anything is allocated."""
    with pytest.raises(LearningError, match=r"1000000 clients with 100 samples .* 14\.9 GiB, .*fewer clients"):
        RobustRegression(clients=10**6, seed=0)


def test_shuffled_clients_have_the_same_objectives_in_another_order() -> None:
    """Everybody's loss is what it was, and no two consecutive clients need be alike any more."""
    sorted_, shuffled = (RobustRegression(clients=40, seed=1, order=order) for order in ("index", "shuffled"))
    owners = [np.flatnonzero((shuffled.targets == row).all(axis=1)).tolist() for row in sorted_.targets]
    assert sorted(owner for [owner] in owners) == list(range(40))
    assert owners != [[client] for client in range(40)]
    for client, [owner] in enumerate(owners):
        np.testing.assert_array_equal(shuffled.features[owner], sorted_.features[client])
    model = np.full(20, -0.5)
    assert shuffled.evaluate(model)["loss"] == pytest.approx(sorted_.evaluate(model)["loss"], rel=1e-12)


def test_an_alpha_for_each_client_pulls_them_apart() -> None:
    """The least-squares optima of the clients spread by 10 where each has an alpha, by far less where they share it."""

    def spread(problem: RobustRegression) -> float:
        pairs = zip(problem.features, problem.targets, strict=True)
        optima = np.array([np.linalg.lstsq(features, targets, rcond=None)[0] for features, targets in pairs])
        return float(optima.mean(axis=1).std())

    apart, together = (spread(RobustRegression(clients=60, seed=3, alpha=alpha)) for alpha in ("per_client", "shared"))
    assert 7.0 < apart < 13.0
    assert together < 2.0
