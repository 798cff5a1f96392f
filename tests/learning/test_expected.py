"""What a server is given on average, and the parts of the loss above the optimum that come of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.common.errors import ScenarioError
from fedsim.learning import FedAvg, LearningError, LocalWork
from fedsim.learning.expected import Expected, expected_optimizer
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg
from fedsim.learning.optimizers.fedau import FedAu
from fedsim.learning.optimizers.optimizer import Cohort, Optimizer
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.server_updates import Composed, Sgd
from fedsim.run.preflight import preflight
from tests.conftest import Load

PARTS = ("bias_loss", "participation_noise_loss", "privacy_noise_loss")
LEARNING = (
    "learning={problem: {kind: quadratic, dimension: 3, clusters: 4, cluster_spread: 1.0}, "
    "optimizers: [fedavg, {kind: debiased_fedavg, update_clip: 2}], step_size: 0.02, evaluate_every: 1, %s}"
)
PARTED = LEARNING % "loss_parts: true"
PRIVATE = "privacy={mechanism: sqrt, noise_multiplier: %s, delta: 1e-3, clip: %s, training: %s}"


class Hidden:
    """A quadratic problem that does not say that its local work is affine."""

    def __init__(self, problem: Quadratic) -> None:
        self.clients, self.dimension = problem.clients, problem.dimension
        self.initial, self.gradients, self.evaluate = problem.initial, problem.gradients, problem.evaluate


def brute_force(problem: Quadratic, shares: Floats, scales: Floats, model: Floats, clip: float) -> Floats:
    total = np.zeros_like(model)
    for i, (share, scale) in enumerate(zip(shares, scales, strict=True)):
        local = model.copy()
        for _ in range(5):
            local -= 0.1 * scale * problem.curvatures[i] * (local - problem.centres[i])
        total += share * (local - model) * min(1.0, clip / float(np.linalg.norm(local - model)))
    return total


@given(st.integers(0, 1000), st.sampled_from([0.05, 0.5, 50.0]), st.booleans())
def test_the_expected_change_is_that_of_all_clients(seed: int, clip: float, debiased: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = Quadratic(9, seed, dimension=3, curvature_spread=0.4)
    shares = rng.dirichlet(np.ones(9)) * (rng.random(9) < 0.7)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(9, 1 / 9)
    scales = np.divide(1.0, 9 * shares, out=np.ones(9), where=shares > 0) if debiased else np.ones(9)
    model, kind = rng.normal(size=3), DebiasedFedAvg() if debiased else FedAvg()
    wanted = brute_force(problem, shares, scales, model, clip)
    for each in (problem, Hidden(problem)):
        made = expected_optimizer(kind, LocalWork.checked(each, 5, 0.1), shares, clip, 4)
        state, moved = made.apply(made.init(9, 3), model, Cohort(0, np.array([0, 1])), np.full((2, 3), np.nan))
        assert moved - model == pytest.approx(wanted * 2 / 4, rel=1e-9, abs=1e-12)
        again = made.apply(state, model, Cohort(1, np.array([3, 5, 6, 8])), np.zeros((4, 3)))[1]
        assert again - model == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_it_goes_through_the_server_update_and_refuses_what_it_does_not_know() -> None:
    work, shares = LocalWork.checked(Quadratic(4, 0), 1, 0.1), np.full(4, 0.25)
    made = expected_optimizer(Composed(FedAvg(), Sgd(0.5)), work, shares)
    assert isinstance(made, Composed)
    assert isinstance(made.optimizer, Expected)
    optimizer: Optimizer = FedAu()
    with pytest.raises(LearningError, match="not known what FedAu makes"):
        expected_optimizer(optimizer, work, shares)


def parts(scenario: Scenario, name: str = "fedavg") -> dict[str, float]:
    metrics = simulate(scenario).metrics
    return {part: metrics[f"learning.{name}.{part}"] for part in ("above_optimum", *PARTS)}


@pytest.mark.parametrize("name", ["fedavg", "debiased_fedavg"])
def test_the_parts_sum_to_the_loss_above_the_optimum(small: Load, name: str) -> None:
    result = simulate(small(PARTED, PRIVATE % (1, 2, "noise")))
    metrics = result.metrics
    problem = Quadratic(12, result.scenario.seed, dimension=3, clusters=4, cluster_spread=1.0)
    above = metrics[f"learning.{name}.loss"] - problem.evaluate(problem.optimum)["loss"]
    assert metrics[f"learning.{name}.above_optimum"] == pytest.approx(above)
    assert sum(metrics[f"learning.{name}.{part}"] for part in PARTS) == pytest.approx(above)
    assert result.learning is not None
    assert sorted(result.learning["optimizer"].unique()) == ["debiased_fedavg", "fedavg"]
    chosen_by = f"decide={{minimize: learning.{name}.above_optimum}}"  # which needs none of the parts
    alone = simulate(small(LEARNING % "loss_parts: false", PRIVATE % (1, 2, "noise"), chosen_by)).metrics
    assert alone[f"learning.{name}.above_optimum"] == metrics[f"learning.{name}.above_optimum"]
    assert f"learning.{name}.bias_loss" not in alone


def test_a_part_is_nothing_where_its_cause_is_switched_off(small: Load) -> None:
    silent = parts(small(PARTED, PRIVATE % (1, 2, "clip")))
    assert silent["privacy_noise_loss"] == 0.0
    noisy = parts(small(PARTED, PRIVATE % (1, 2, "noise")))
    assert noisy["privacy_noise_loss"] > 0.0
    assert [noisy[part] for part in PARTS[:2]] == [silent[part] for part in PARTS[:2]]
    everybody = parts(small(PARTED, PRIVATE % (1, 2, "clip"), "server.cohort=12", "population.0.separation=0"))
    assert everybody["participation_noise_loss"] == pytest.approx(0.0, abs=1e-12)
    unbiased = parts(small(PARTED, "learning.optimizers=[fedavg]", "server.cohort=12", "population.0.separation=0"))
    longer = ("stop.rounds=400", "learning.step_size=0.2", "learning.optimizers=[fedavg]")
    settled = parts(small(PARTED, *longer, "server.cohort=12", "population.0.separation=0"))
    assert settled["bias_loss"] == pytest.approx(0.0, abs=1e-9)
    assert unbiased["bias_loss"] > settled["bias_loss"]  # what training had no time for is in it
    assert parts(small(PARTED, *longer, "population.0.separation=0"))["bias_loss"] > 0.01


def test_a_target_above_the_optimum_is_that_loss(small: Load) -> None:
    near = simulate(small(LEARNING % "target_above_optimum: 0.5", "learning.optimizers=[fedavg]"))
    problem = Quadratic(12, near.scenario.seed, dimension=3, clusters=4, cluster_spread=1.0)
    loss = problem.evaluate(problem.optimum)["loss"] + 0.5
    same = simulate(small(LEARNING % f"target_loss: {loss}", "learning.optimizers=[fedavg]"))
    assert near.metrics["learning.fedavg.rounds_to_target"] == same.metrics["learning.fedavg.rounds_to_target"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            ["learning.problem={kind: robust_regression}"],
            r"loss_parts: the optimum of 'robust_regression' is not known",
        ),
        (["learning.optimizers=[mifa]"], r"optimizers\[0\]: 'mifa' makes more of the updates"),
        (["server={mode: buffered, concurrency: 4, buffer: 3}"], "loss_parts: what clients send on average is known"),
        (["learning.optimizers=[{kind: fedavg, update_clip: 1}]"], "update_clip: nothing is clipped"),
        (["learning.target_loss=1", "learning.target_above_optimum=1"], "target_loss and target_above_optimum"),
        (["learning.target_above_optimum=-1"], "target_above_optimum: must be"),
    ],
)
def test_what_has_no_parts_is_refused_before_the_run(small: Load, changes: list[str], words: str) -> None:
    plain = "learning.optimizers=[fedavg]"
    with pytest.raises(ScenarioError, match=words):
        preflight(small(PARTED, plain, *changes))


def test_a_clip_of_an_optimizers_own_is_its_clip_and_its_noise(small: Load) -> None:
    """The same run as one whose common clip is that."""
    run = simulate(small(PARTED, "learning.optimizers=[{kind: fedavg, update_clip: 2}]", PRIVATE % (1, 9, "noise")))
    common = simulate(small(PARTED, "learning.optimizers=[fedavg]", PRIVATE % (1, 2, "noise")))
    assert run.learning is not None
    assert common.learning is not None
    assert run.learning.equals(common.learning)


def test_who_never_reported_is_left_out() -> None:
    made = expected_optimizer(FedAvg(), LocalWork.checked(Quadratic(3, 0), 1, 0.1), np.array([0.5, 0.0, 0.5]))
    assert isinstance(made, Expected)
    assert made.clients.tolist() == [0, 2]


def test_an_optimizer_with_a_step_size_of_its_own_is_foreseen_and_split_by_it(small: Load) -> None:
    """All that a scenario tells of it is what it tells where everyone has that step size."""
    choice = "learning.optimizers=[{kind: fedavg, local_step_size: 0.2}]"
    metrics = simulate(small(PARTED, PRIVATE % (1, 2, "clip"), choice)).metrics
    same = simulate(small(PARTED, PRIVATE % (1, 2, "clip"), "learning.optimizers=[fedavg]", "learning.step_size=0.2"))
    assert metrics == same.metrics


@pytest.mark.long
def test_softmax_regression_tells_its_distance_from_the_optimum_where_it_is_asked(small: Load) -> None:
    learning = "learning={problem: softmax_regression, optimizers: [fedavg], step_size: 0.1%s}"
    plain = simulate(small(learning % "")).metrics
    asked = simulate(small(learning % ", target_above_optimum: 1.2")).metrics
    assert "learning.fedavg.bias" not in plain
    assert asked["learning.fedavg.bias"] > 0
    assert asked["learning.fedavg.rounds_to_target"] > 0
