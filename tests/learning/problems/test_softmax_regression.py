from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import LearningError, build_problem
from fedsim.learning.problems.softmax_regression import SoftmaxRegression, _probabilities


@pytest.fixture
def problem(tmp_path: Path) -> SoftmaxRegression:
    """Four clients with five samples each, of three classes and two features."""
    draws = stream(1, 0, Purpose.PROBLEM)
    inputs, labels = draws.normals(np.arange(20)[:, None], np.arange(2)), np.arange(20) % 3
    np.savez(tmp_path / "data.npz", x_train=inputs, y_train=labels, x_test=inputs[:6], y_test=labels[:6])
    options = {"data": {"kind": "npz", "path": "data.npz"}, "partition": "shards", "l2": 0.05}
    made = build_problem("softmax_regression", options, clients=4, seed=3, folder=tmp_path)
    assert isinstance(made, SoftmaxRegression)
    return made


def objective(problem: SoftmaxRegression, client: int, model: NDArray[np.float64]) -> float:
    """Return f_i, sample by sample, from the definition."""
    weights, total = model.reshape(3, 3), 0.0
    for j in problem._members[client]:
        scores = [sum(problem._inputs[j, k] * weights[k, c] for k in range(3)) for c in range(3)]
        label = int(problem._targets[j].argmax())
        total += np.log(sum(np.exp(score) for score in scores)) - scores[label]
    return float(total / len(problem._members[client]) + 0.05 / 2 * (weights**2).sum())


@pytest.mark.parametrize("client", range(4))
def test_gradients_are_the_slopes_of_the_objective(problem: SoftmaxRegression, client: int) -> None:
    """Central differences of f_i."""
    model = stream(2, 0, Purpose.OPTIMIZER).normals(0, np.arange(9))
    slopes = [
        (objective(problem, client, model + e) - objective(problem, client, model - e)) / 2e-5 for e in 1e-5 * np.eye(9)
    ]
    np.testing.assert_allclose(problem.gradients(np.array([client]), model[None])[0], slopes, rtol=1e-6, atol=1e-9)


def test_evaluation_is_the_mean_over_clients(problem: SoftmaxRegression) -> None:
    """Loss and gradient are means of the clients' own; accuracy counts the largest score."""
    model = stream(5, 0, Purpose.OPTIMIZER).normals(0, np.arange(9))
    figures = problem.evaluate(model)
    assert figures["loss"] == pytest.approx(np.mean([objective(problem, i, model) for i in range(4)]))
    gradients = problem.gradients(np.arange(4), np.tile(model, (4, 1)))
    assert figures["grad_norm"] == pytest.approx(np.linalg.norm(gradients.mean(axis=0)))
    guesses = (problem._test_inputs @ model.reshape(3, 3)).argmax(axis=1)
    assert figures["accuracy"] == np.mean(guesses == [0, 1, 2, 0, 1, 2])


def test_what_a_client_has_is_what_its_gradient_comes_from(problem: SoftmaxRegression) -> None:
    model = stream(2, 0, Purpose.PROBLEM).normals(0, np.arange(9))
    inputs, labels = problem.samples_of(2)
    odds = np.exp(inputs @ model.reshape(3, 3))
    slope = inputs.T @ (odds / odds.sum(axis=1, keepdims=True) - labels) / len(inputs) + 0.05 * model.reshape(3, 3)
    assert slope.ravel() == pytest.approx(problem.gradients(np.array([2]), model[None])[0], rel=1e-12)


def test_minibatches_of_every_sample_once_are_the_full_gradient(problem: SoftmaxRegression) -> None:
    clients, models = np.array([2, 0, 2]), stream(4, 0, Purpose.OPTIMIZER).normals(np.arange(3)[:, None], np.arange(9))
    every = np.tile(np.arange(problem.samples)[::-1], (3, 1))
    np.testing.assert_allclose(problem.select(clients, every)(models), problem.gradients(clients, models), rtol=1e-12)


def test_huge_scores_overflow_nothing(problem: SoftmaxRegression) -> None:
    """Losses of thousands stay finite."""
    figures = problem.evaluate(1e4 * np.arange(9.0))
    assert np.isfinite(figures["loss"])
    assert np.isfinite(problem.gradients(np.array([0]), 1e4 * np.arange(9.0)[None])).all()


def test_probabilities_are_those_of_each_row_to_the_last_bit() -> None:
    """Shifted by the largest score of the row, wherever that is; a row that is lost leaves the others alone."""
    logits = 30.0 * np.random.default_rng(0).normal(size=(2, 3, 4, 10))
    logits[0, 1, 2, 3], logits[1, 2, 3, 9] = np.nan, -np.inf
    expected = np.empty_like(logits)
    for place in np.ndindex(2, 3, 4):
        shares = np.exp(logits[place] - logits[place].max())
        expected[place] = shares / shares.sum()
    probabilities = _probabilities(logits)
    np.testing.assert_array_equal(probabilities, expected)
    assert np.isnan(probabilities).any(axis=-1).sum() == 1


def test_the_digits_are_learned() -> None:
    """With scikit-learn's digits, gradient descent from zero reaches nine tenths on samples that nobody has."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, extra 'data'")
    problem = SoftmaxRegression(clients=100, seed=0)
    assert (problem.dimension, problem.samples) == (650, 14)
    model = problem.initial()
    assert problem.evaluate(model)["loss"] == pytest.approx(np.log(10))
    for _ in range(60):
        model = model - 0.5 * problem.gradients(np.arange(100), np.tile(model, (100, 1))).mean(axis=0)
    assert problem.evaluate(model)["accuracy"] > 0.9


@pytest.mark.long
@pytest.mark.parametrize("l2", [1e-3, 0.3])
def test_its_optimum_is_where_the_gradient_vanishes(l2: float) -> None:
    """By the gradients of the clients, whose mean is that of F; and no step from it goes down."""
    problem = SoftmaxRegression(12, 3, l2=l2)
    optimum = problem.solve()
    slopes = problem.gradients(np.arange(12), np.repeat(optimum[None], 12, axis=0))
    assert np.linalg.norm(slopes.mean(axis=0)) < 1e-7
    beside = optimum + 0.01 * stream(1, 0, Purpose.PROBLEM).normals(0, np.arange(len(optimum)))
    assert problem.evaluate(optimum)["loss"] < problem.evaluate(beside)["loss"]


def test_without_regularisation_there_may_be_no_optimum() -> None:
    with pytest.raises(LearningError, match="only with l2 above 0"):
        SoftmaxRegression(12, 3, l2=0.0).solve()
