"""Training as a scenario asks for it: server updates, schedules, minibatches, predictions, kept models."""

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.common.errors import ScenarioError
from fedsim.run.run import Result

PAPER = Path("scenarios/paper")
QUADRATIC = "{kind: quadratic, dimension: 3, clusters: 4, cluster_spread: 1.0, curvature_spread: 0.3}"


def train(*overrides: str, rounds: int = 60) -> Result:
    settings = [
        f"stop.rounds={rounds}",
        "expect=[]",
        'headline=""',
        "drift=null",
        "sweep=null",
        f"learning.problem={QUADRATIC}",
        "learning.step_size=0.01",
        *overrides,
    ]
    return simulate(Scenario.load(PAPER / "fedavg-synthetic.fedsim.yaml", settings))


def loss(result: Result, name: str) -> list[float]:
    assert result.learning is not None
    return result.learning.filter(optimizer=name)["loss"].to_list()


def test_server_updates_of_a_scenario() -> None:
    """A server step of one is FedAvg but for rounding, another is not."""
    result = train(
        "learning.optimizers=[fedavg, {kind: fedavg, name: same, server: sgd}, "
        "{kind: fedavg, name: half, server: {kind: sgd, step_size: 0.5}}]"
    )
    np.testing.assert_allclose(loss(result, "same"), loss(result, "fedavg"), rtol=1e-12)
    assert loss(result, "half")[-1] != pytest.approx(loss(result, "fedavg")[-1], rel=1e-6)


def test_where_nobody_reports_every_model_stays_at_the_start_as_foreseen() -> None:
    """All sessions are given up before they end; no theory applies, so the log is all that is known."""
    result = train(
        "server.deadline=1s", "population.*.cooldown=1s", "learning.optimizers=[fedavg, debiased_fedavg, fedvarp]"
    )
    names = ("fedavg", "debiased_fedavg", "fedvarp")
    assert result.rounds["reported"].sum() == 0
    assert len({result.metrics[f"learning.{name}.{of}"] for name in names for of in ("bias", "bias_predicted")}) == 1
    assert [result.metrics[f"learning.{name}.bias_error"] for name in names] == [0.0, 0.0, 0.0]


def test_a_schedule_has_defaults_and_may_be_one_number() -> None:
    for written, steps in {
        "0.2": {0: 0.2, 10**6: 0.2},
        "{kind: power, initial: 0.2, scale: 5}": {0: 0.2, 5: 0.2 / math.sqrt(2), 15: 0.1},
        "{kind: stages, initial: 0.2, milestones: [3, 5]}": {2: 0.2, 3: 0.02, 5: 0.002},
    }.items():
        scenario = Scenario.load(PAPER / "synthetic.fedsim.yaml", [f"learning.step_size={written}"])
        assert scenario.learning is not None
        assert {t: scenario.learning.step_size(t) for t in steps} == pytest.approx(steps)


def test_schedules_and_minibatches_train() -> None:
    """Through a whole run: another schedule or batch size, another curve; the same, the same."""
    robust = "learning.problem={kind: robust_regression, samples: 20}"
    batches = [loss(train(robust, f"learning.batch_size={b}"), "fedavg")[-1] for b in (2, 2, 5)]
    assert batches[0] == batches[1] != batches[2]
    slower = train("learning.step_size={kind: power, initial: 0.01, exponent: 0.7}")
    assert loss(slower, "fedavg")[-1] != pytest.approx(loss(train(), "fedavg")[-1], rel=1e-3)


def test_minibatches_need_samples() -> None:
    """Said of the line of the scenario before anything is simulated."""
    with pytest.raises(
        ScenarioError, match=r"learning.batch_size: 'quadratic' has no samples .* robust_regression, sa"
    ):
        train("learning.batch_size=5")


def test_what_a_method_needs_is_told_by_the_method() -> None:
    """In MB with numbers of 4 bytes: FedVARP keeps a change of each participant, SCAFFOLD sends two arrays."""
    optimizers = "[fedavg, fedvarp, scaffold, {kind: fedavg, name: adam, server: adam}]"
    target = ("learning.target_loss=1e9", "stop.rounds=30", "learning.evaluate_every=10")
    result = train(f"learning.optimizers={optimizers}", *target)
    reports, participants = result.participations.filter(outcome="reported"), result.participations["client"].n_unique()
    model, found = 4e-6 * 3, {name.removeprefix("learning."): each for name, each in result.metrics.items()}
    kept = {name: found[f"{name}.server_mb"] / model for name in ("fedavg", "fedvarp", "scaffold", "adam")}
    assert kept == pytest.approx({"fedavg": 1, "fedvarp": 2 + participants, "scaffold": 2, "adam": 3})
    assert found["scaffold.client_mb"] == pytest.approx(model)
    assert found["fedvarp.client_mb"] == found["fedavg.client_mb"] == 0
    assert found["fedavg.sent_mb"] == pytest.approx(model * len(reports))
    assert found["scaffold.sent_mb"] == pytest.approx(2 * model * len(reports))
    first = len(reports.filter(reports["round"] < 10))
    assert found["scaffold.sent_mb_to_target"] == pytest.approx(2 * model * first)
    missed = train("learning.target_loss=-1", "stop.rounds=30").metrics
    assert np.isnan(missed["learning.fedavg.sent_mb_to_target"])


@pytest.mark.parametrize(
    ("setting", "above"),
    [
        ("learning.reference=uniform", 0.3),
        ("learning.loss_parts=true", 0.3),
        ("privacy={mechanism: banded, epsilon: 90, delta: 1.0e-6, clip: 1, training: noise}", 0.4),
    ],
)
def test_training_that_stops_at_its_target_is_that_of_a_shorter_run(setting: str, above: float) -> None:
    """As soon as the slowest is there; who takes part how often, and the noise of privacy, stay those of the run."""
    optimizers = "learning.optimizers=[debiased_fedavg, {kind: fedavg, name: slow, local_step_size: 0.0006}]"
    alike = (optimizers, setting, f"learning.target_above_optimum={above}", "population.*.separation=2")
    early, whole = (train(*alike, f"learning.stop_at_target={stop}", rounds=400) for stop in ("true", "false"))
    needed = [whole.metrics[f"learning.{name}.rounds_to_target"] for name in ("debiased_fedavg", "slow")]
    rounds = int(max(needed))
    assert rounds < 400
    assert early.learning is not None
    assert whole.learning is not None
    assert early.learning.equals(whole.learning.filter(pl.col("round") < rounds))
    assert early.participations.equals(whole.participations)
    if "reference" not in setting:
        return
    assert min(needed) < rounds
    short = train(*alike, rounds=rounds)
    told = [
        {name: value for name, value in each.metrics.items() if name.startswith("learning.") and "_tenth_" not in name}
        for each in (early, short)
    ]
    assert told[0] == pytest.approx(told[1], nan_ok=True)
    for name, model in short.models.items():
        np.testing.assert_array_equal(early.models[name], model)


def test_training_whose_target_is_not_reached_goes_on_to_the_end() -> None:
    settings = ("learning.target_loss=0", "learning.optimizers=[fedavg]")
    early, whole = (train(*settings, f"learning.stop_at_target={stop}") for stop in ("true", "false"))
    assert early.metrics == pytest.approx(whole.metrics, nan_ok=True)
    apart = ("learning.target_loss=0", "learning.optimizers=[fedavg]", "learning.step_size=1e9")
    early, whole = (train(*apart, f"learning.stop_at_target={stop}") for stop in ("true", "false"))
    assert early.metrics["learning.fedavg.diverged"] == 1
    assert early.metrics == pytest.approx(whole.metrics, nan_ok=True)
    with pytest.raises(ScenarioError, match="learning: has stop_at_target and no target; give target_loss"):
        train("learning.stop_at_target=true")


def test_the_oracle_takes_theory_or_the_log() -> None:
    """Close to each other where both are there; without theory the log must be asked for."""
    both = "learning.optimizers=[oracle_weighted, {kind: oracle_weighted, name: hindsight, source: log}]"
    result = train(both, rounds=2000)
    metrics = result.metrics
    theory, log = (metrics[f"learning.{name}.average_loss"] for name in ("oracle_weighted", "hindsight"))
    assert theory == pytest.approx(log, rel=0.05)
    with pytest.raises(ScenarioError, match=r"learning\.optimizers\[0\]\.source: .*write source: log"):
        train(both, "population.*.separation=2", "server={cohort: 2, cooldown_from: reported, over_select: 1.5}")


def test_the_reference_oracle_knows_that_everyone_is_alike() -> None:
    """Under uniform participation its frequencies are even."""
    result = train("learning.optimizers=[oracle_weighted, fedavg]", "learning.reference=uniform")
    plain = train("learning.optimizers=[fedavg]", "learning.reference=uniform")
    assert loss(result, "oracle_weighted_uniform") == pytest.approx(loss(plain, "fedavg_uniform"))


def test_the_drawn_model_is_one_of_the_run() -> None:
    """Evaluated in every round, the table has the drawn round, with the figures of the metrics."""
    result = train("learning.evaluate_every=1", "learning.optimizers=[fedavg, debiased_fedavg]")
    assert result.learning is not None
    for name in ("fedavg", "debiased_fedavg"):
        drawn = result.metrics[f"learning.{name}.drawn_round"]
        [row] = result.learning.filter((pl.col("optimizer") == name) & (pl.col("round") == drawn)).to_dicts()
        assert result.metrics[f"learning.{name}.drawn_loss"] == row["loss"]
        assert result.metrics[f"learning.{name}.drawn_grad_norm"] == row["grad_norm"]


def test_a_diverged_optimizer_leaves_the_others_their_figures() -> None:
    """Its metrics say that it diverged, and those of its models are not there."""
    options = "learning.optimizers=[{kind: fedavg, name: wild, server: {kind: sgd, step_size: 1000}}, fedavg]"
    metrics = train(options, "learning.step_size=0.1", rounds=400).metrics
    assert (metrics["learning.wild.diverged"], metrics["learning.fedavg.diverged"]) == (1.0, 0.0)
    assert "learning.wild.average_loss" not in metrics
    assert metrics["learning.fedavg.average_loss"] < metrics["learning.fedavg.loss"]


@pytest.mark.long
@pytest.mark.parametrize("separation", [0, 4, 8, 12])
def test_fedavg_ends_where_theory_says(separation: int) -> None:
    """Predicted from the closed form, measured over 4,000 models; debiasing leaves a fraction of it."""
    result = simulate(Scenario.load(PAPER / "quadratic-bias.fedsim.yaml", [f"population.*.separation={separation}"]))
    metrics = result.metrics
    foreseen = metrics["learning.fedavg.bias_predicted"]
    assert metrics["learning.fedavg.bias"] == pytest.approx(foreseen, rel=0.05, abs=0.02)
    assert metrics["learning.fedvarp.bias_error"] < 1e-3
    if separation <= 4:
        assert metrics["learning.debiased_fedavg.bias"] < foreseen / 2


@pytest.mark.campaign
def test_the_papers_claims_on_digits() -> None:
    """Convex, on real images: FedAvg's bias falls with R; debiased, it comes close to uniform participation.

    By the loss of the mean model. One fixed seed; the differences asserted are several times what other seeds change.
    """
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn, extra 'data'")
    file = PAPER / "debiased-digits.fedsim.yaml"
    excess: dict[int, dict[str, float]] = {}
    for separation in (0, 4, 8):
        overrides = [f"population.*.separation={separation}", "learning.optimizers=[fedavg, debiased_fedavg]"]
        overrides.append("drift=null")
        metrics = simulate(Scenario.load(file, overrides)).metrics
        uniform = metrics["learning.fedavg_uniform.average_loss"]
        excess[separation] = {
            name: metrics[f"learning.{name}.average_loss"] - uniform for name in ("fedavg", "debiased_fedavg")
        }
    assert excess[0]["fedavg"] > 3 * excess[4]["fedavg"] > 6 * excess[8]["fedavg"] > 0
    for found in excess.values():
        assert found["debiased_fedavg"] < found["fedavg"] / 10
    assert abs(excess[4]["debiased_fedavg"]) < 1e-3
    assert abs(excess[8]["debiased_fedavg"]) < 1e-3
