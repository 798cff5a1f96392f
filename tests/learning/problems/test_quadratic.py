from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LocalWork, Optimizer, biases, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.mifa import FedVarp, Mifa
from fedsim.learning.problems.quadratic import Quadratic, SampledQuadratic

from ..cases import drawn_cohorts, quadratic, tables


def spread(clients: int, seed: int, curvature: float = 0.7) -> Quadratic:
    """Return clients that differ in all ways."""
    return Quadratic(clients, seed, dimension=3, clusters=3, cluster_spread=2.0, curvature_spread=curvature)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), client=st.integers(0, 5))
def test_gradients_are_the_slopes_of_the_objective(seed: int, client: int) -> None:
    """Central differences of f_i written out coordinate by coordinate."""
    problem = spread(6, seed)

    def objective(x: list[float]) -> float:
        h, c = problem.curvatures[client], problem.centres[client]
        return float(sum(h[j] * (x[j] - c[j]) ** 2 / 2 for j in range(3)))

    model = np.array([0.3, -1.0, 2.0])
    slopes = [(objective(model + e) - objective(model - e)) / 2e-5 for e in 1e-5 * np.eye(3)]
    np.testing.assert_allclose(problem.gradients(np.array([client]), model[None])[0], slopes, rtol=1e-6, atol=1e-7)


def test_evaluation_is_the_mean_over_clients_and_knows_the_optimum() -> None:
    """Against sums over all clients; at the optimum the gradient vanishes."""
    problem, model = spread(7, 1), np.array([1.0, 0.5, -2.0])
    figures = problem.evaluate(model)
    losses = (problem.curvatures * (model - problem.centres) ** 2).sum(axis=1) / 2
    gradients = problem.gradients(np.arange(7), np.tile(model, (7, 1)))
    assert figures["loss"] == pytest.approx(losses.mean())
    assert figures["grad_norm"] == pytest.approx(np.linalg.norm(gradients.mean(axis=0)))
    assert figures["distance"] == pytest.approx(np.linalg.norm(model - problem.optimum))
    np.testing.assert_allclose(
        problem.gradients(np.arange(7), np.tile(problem.optimum, (7, 1))).mean(axis=0), 0, atol=1e-15
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), local_steps=st.integers(1, 6), step_size=st.floats(0.001, 0.1))
def test_rest_is_where_the_weighted_changes_cancel(seed: int, local_steps: int, step_size: float) -> None:
    """The clients' own training, run from x_rest, moves nothing on average."""
    problem, draws = spread(5, seed), stream(seed, 0, Purpose.OPTIMIZER)
    weights, scales = draws.exponentials(np.arange(5), 0), draws.exponentials(np.arange(5), 1)
    rest = problem.rest(weights, scales, local_steps=local_steps, step_size=step_size)
    work = LocalWork.checked(problem, local_steps, step_size)
    deltas = work.updates(np.arange(5), np.tile(rest, (5, 1)), step_size * scales)
    np.testing.assert_allclose(weights @ deltas, 0.0, atol=1e-12)


def test_who_moves_nothing_rests_at_the_start() -> None:
    """Weights of nobody; and steps of length 2 with one curvature, of which two cancel."""
    problem, none, one = spread(5, 0), np.zeros(5), np.ones(5)
    np.testing.assert_array_equal(problem.rest(none, one, local_steps=2, step_size=0.1), problem.initial())
    back_and_forth = spread(5, 0, curvature=0.0).rest(one / 5, one, local_steps=2, step_size=2.0)
    np.testing.assert_array_equal(back_and_forth, problem.initial())


def test_fedavg_settles_where_it_was_foreseen() -> None:
    """One curvature: the mean model is exactly the weighted mean of the centres, up to noise; debiasing removes it.

    4,000 models of the last half; the bias is some 20 times its standard error.
    """
    problem = spread(6, 3, curvature=0.0)
    cohorts = drawn_cohorts(8000, clients=6, size=2)
    pi = np.bincount(np.ravel(cohorts)) / 16_000
    optimizers: dict[str, Optimizer] = {
        "fedavg": FedAvg(),
        "debiased": DebiasedFedAvg(),
        "varp": FedVarp(),
        "mifa": Mifa(),
    }
    course = Course(Cohorts.read(*tables(cohorts), 6), optimizers, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, 2, 0.005), evaluate_every=8000)
    figures = biases(problem, optimizers, trained.ends, pi, local_steps=2, step_size=0.005)
    assert figures["learning.fedavg.bias_predicted"] == pytest.approx(
        np.linalg.norm(pi @ problem.centres - problem.optimum)
    )
    assert figures["learning.fedavg.bias"] == pytest.approx(figures["learning.fedavg.bias_predicted"], rel=0.1)
    for name in ("debiased", "varp", "mifa"):
        assert figures[f"learning.{name}.bias"] < figures["learning.fedavg.bias"] / 10
        assert figures[f"learning.{name}.bias_predicted"] < figures["learning.fedavg.bias"] / 10


def test_only_problems_with_a_known_optimum_have_a_bias() -> None:
    assert biases(quadratic(), {}, {}, np.ones(6) / 6, local_steps=1, step_size=0.1) == {}


def test_an_optimizer_that_cannot_tell_has_no_prediction() -> None:
    """Its bias is measured all the same."""
    problem, optimizers = spread(4, 0), {"own": FedAu(cutoff=3)}
    course = Course(Cohorts.read(*tables([[0, 1], [2, 3]]), 4), optimizers, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, 1, 0.1))
    figures = biases(problem, optimizers, trained.ends, np.full(4, 0.25), local_steps=1, step_size=0.1)
    assert list(figures) == ["learning.own.bias", "learning.own.last_bias"]


def test_minibatches_of_a_sampled_one_have_its_gradient_in_the_mean() -> None:
    """All samples once give the gradient; the deviation of a batch of four is h noise / 2: 40,000 draws, 5 sigma."""
    problem = SampledQuadratic(clients=3, seed=1, dimension=2, samples=50, noise=3.0, curvature_spread=0.5, offset=2.0)
    plain = Quadratic(clients=3, seed=1, dimension=2, curvature_spread=0.5, offset=2.0)
    clients, models = np.array([0, 2]), np.ones((2, 2))
    every = np.tile(np.arange(50), (2, 1))
    exact = plain.gradients(clients, models)
    np.testing.assert_allclose(problem.select(clients, every)(models), exact, rtol=1e-12)
    np.testing.assert_array_equal(problem.select(clients)(models), exact)
    assert problem.evaluate(models[0]) == plain.evaluate(models[0])
    batches = np.random.default_rng(0).integers(50, size=(40_000, 1, 4))
    ones = np.zeros(40_000, dtype=np.int64)
    slopes = problem.select(ones, batches[:, 0])(np.ones((40_000, 2)))
    spread = plain.curvatures[0] * problem._deviations[0].std(axis=0) / 2
    np.testing.assert_allclose(slopes.mean(axis=0), exact[0], atol=5 * spread.max() / 200)
    np.testing.assert_allclose(slopes.std(axis=0), spread, rtol=5 / np.sqrt(2 * 40_000))
    assert abs(plain.centres.mean() - 2.0) < abs(Quadratic(clients=3, seed=1, dimension=2).centres.mean() - 2.0)


def test_optimizers_side_by_side_see_the_same_minibatches_as_alone() -> None:
    problem = SampledQuadratic(clients=4, seed=1, samples=7)
    clients, drawn = np.array([3, 1]), np.array([[0, 6, 6], [2, 2, 5]])
    models = np.random.default_rng(1).normal(size=(4, 10))
    both = problem.select(np.tile(clients, 2), np.tile(drawn, (2, 1)))(models)
    alone = [problem.select(clients, drawn)(part) for part in (models[:2], models[2:])]
    np.testing.assert_array_equal(both, np.concatenate(alone))


class Stepping(Quadratic):
    """The same objectives, whose gradients are asked for at each step."""

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        return super().gradients(clients, models)


@pytest.mark.parametrize("curvature", [0.0, 0.7])
@pytest.mark.parametrize("dimension", [3, 20_000])
def test_all_steps_at_once_have_the_bytes_of_a_gradient_at_each(curvature: float, dimension: int) -> None:
    """Also where a cohort is more than goes through the cache at once, and with a client twice."""
    rng, clients = np.random.default_rng(5), np.array([4, 0, 4, 2, 1, 3])
    models, sizes = rng.normal(size=(6, dimension)), rng.uniform(0.01, 0.3, 6)
    made = [
        LocalWork.checked(kind(5, 8, dimension=dimension, clusters=2, curvature_spread=curvature), 4, 0.1)
        for kind in (Quadratic, Stepping)
    ]
    assert [each.descending is not None for each in made] == [True, False]
    one, other = (each.updates(clients, models, sizes) for each in made)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[[2]], made[0].updates(clients[[2]], models[[2]], sizes[[2]]))


def test_centres_are_those_of_the_cluster_and_of_the_client() -> None:
    """Draws of a cluster are addressed by its number, whatever clients it has."""
    problem = Quadratic(7, 3, dimension=4, clusters=3, cluster_spread=2.0, spread=0.5)
    normals = stream(3, 0, Purpose.PROBLEM).normals
    for client, cluster in enumerate([0, 0, 0, 1, 1, 2, 2]):
        wanted = 0.5 * normals(client, np.arange(4)) + 2.0 * normals(2**62 + cluster, np.arange(4))
        np.testing.assert_array_equal(problem.centres[client], wanted)
    assert (problem.curvatures == 1.0).all()


def test_data_that_are_kept_are_those_that_were_asked_for() -> None:
    """Blocks of clients are drawn at a time, and the last data are kept for the next setting of a sweep."""
    whole, every = Quadratic(3_000, 1, dimension=20), dict[str, Floats]()
    for key, value in {"seed": 2, "clients": 2_999, "spread": 2.0, "curvature_spread": 0.5, "data_seed": 7}.items():
        options: dict[str, Any] = {"clients": 3_000, "seed": 1, "dimension": 20, key: value}
        every[key] = Quadratic(**options).centres
    assert Quadratic(3_000, 1, dimension=20).centres.tobytes() == whole.centres.tobytes()
    assert {key for key, each in every.items() if each.tobytes() == whole.centres.tobytes()} == {"curvature_spread"}
    assert every["clients"].tobytes() == whole.centres[:-1].tobytes()
    again = Quadratic(3_000, 1, dimension=20)
    assert again.optimum is Quadratic(3_000, 1, dimension=20).optimum
    with pytest.raises(ValueError, match="read-only"):
        again.centres[0] = 0.0
