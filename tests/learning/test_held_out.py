"""Clients held out: training is blind to them, no figure of participation knows of them, and gaps are as by hand."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedsim
from fedsim import Scenario
from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, build_optimizer, build_problem, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.held_out import among, devices_of, generalisation, places_of
from fedsim.learning.local_training import LocalWork
from fedsim.learning.problems.problem import ByClient, Descending, Sampled, Solved
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.trajectory import End


def case(**learning: Any) -> Scenario:
    made: dict[str, Any] = {
        "problem": {"kind": "quadratic", "dimension": 2},
        "optimizers": ["fedavg", "debiased_fedavg", "scaffold"],
    }
    made |= {"step_size": 0.1, "reference": "uniform", "local_steps": [1 + k % 3 for k in range(12)]}
    groups = [{"name": "a", "devices": 8, "weight": 3}, {"name": "b", "devices": 4}]
    base = {"seed": 4, "stop": {"rounds": 40}, "population": groups, "server": {"cohort": 3}}
    return Scenario.model_validate(base | {"learning": made | learning})


def test_nobody_but_the_evaluation_knows_of_them() -> None:
    """With them the log and all figures of participation are the same, to the last bit; and the models, by the data."""
    without, beside = fedsim.simulate(case()), fedsim.simulate(case(held_out=7))
    assert without.participations.equals(beside.participations)
    whole = Quadratic(clients=19, seed=4, dimension=2)
    devices = np.argsort(among(7, 12))[:12]
    log = Cohorts.read(without.rounds, without.participations, 12)
    course = Course(log, {"fedavg": build_optimizer("fedavg", {})}, stream(4, 0, Purpose.OPTIMIZER))
    steps = np.array([1 + k % 3 for k in range(12)])
    (alone,) = replay_together([course], LocalWork.checked(devices_of(whole, devices), steps, 0.1))
    np.testing.assert_array_equal(alone.ends["fedavg"].last, beside.models["fedavg.last"])
    model = np.zeros(2)
    for (_,), cohort in without.participations.sort("round", "position").group_by("round", maintain_order=True):
        taken = cohort["client"].to_numpy()
        kept = (1 - 0.1) ** steps[taken, None]
        model = (kept * model + (1 - kept) * whole.centres[devices[taken]]).mean(axis=0)
    np.testing.assert_allclose(model, beside.models["fedavg.last"], rtol=1e-12)
    apart = {name for name, value in without.metrics.items() if beside.metrics.get(name) != value}
    assert all(name.startswith("learning.") for name in apart)
    assert not any("held_out" in name or "_gap" in name for name in without.metrics)


def test_the_gap_is_that_of_two_samples() -> None:
    """Against the formulas of Welch by scipy, and means by hand; groups are those of the devices in proportion."""
    run = fedsim.simulate(case(held_out=6))
    problem = Quadratic(clients=18, seed=4, dimension=2)
    order = among(6, 12)
    assert order.tolist() == [0, 1, 12, 2, 3, 13, 4, 5, 14, 6, 7, 15, 8, 9, 16, 10, 11, 17]
    losses = problem.by_client(run.models["fedavg.average"])["loss"][np.argsort(order)]
    figures = {key.removeprefix("learning.fedavg."): each for key, each in run.metrics.items()}
    assert figures["loss_of_devices"] == pytest.approx(losses[:12].mean())
    assert figures["loss_of_held_out"] == pytest.approx(losses[12:].mean())
    interval = stats.ttest_ind(losses[12:], losses[:12], equal_var=False).confidence_interval()
    assert (figures["loss_gap_low"], figures["loss_gap_high"]) == pytest.approx((interval.low, interval.high))
    fact = run.facts.filter(key="learning.fedavg.loss_gap").row(0, named=True)
    assert (fact["low"], fact["high"]) == (figures["loss_gap_low"], figures["loss_gap_high"])
    assert places_of(6, 12).tolist() == [1, 3, 5, 7, 9, 11]
    assert figures["loss_of_held_out_group_a"] == pytest.approx(losses[12:16].mean())
    assert figures["loss_of_held_out_group_b"] == pytest.approx(losses[16:].mean())
    assert figures["bias"] == pytest.approx(float(np.linalg.norm(run.models["fedavg.average"] - problem.optimum)))
    assert figures["bias_error"] < 0.2


@pytest.mark.parametrize("held_out", [3, 7, 30])
def test_those_held_out_have_data_as_the_devices_of_their_group(held_out: int) -> None:
    """Where data go by the order of clients: clusters without a spread are the same for both, by group."""
    problem = {"kind": "quadratic", "dimension": 2, "clusters": 3, "spread": 0.0, "cluster_spread": 3.0}
    groups = [{"name": name, "devices": 10 if held_out < 30 else 20} for name in "abc"]
    made = case(held_out=held_out, problem=problem, local_steps=2, optimizers=["fedavg"]).model_dump(exclude_unset=True)
    found = fedsim.simulate(Scenario.model_validate(made | {"population": groups})).metrics
    losses = {name: found[f"learning.fedavg.loss_of_group_{name}"] for name in "abc"}
    assert len({round(each, 6) for each in losses.values()}) == 3
    for name, loss in losses.items():
        assert found[f"learning.fedavg.loss_of_held_out_group_{name}"] == pytest.approx(
            loss, rel=0.2 if held_out == 7 else 1e-9
        )


def test_the_devices_can_what_the_whole_can() -> None:
    """Optional members are those of the whole problem, so that the same code trains."""
    plain, sampled = (build_problem(kind, {}, clients=9, seed=1) for kind in ("quadratic", "sampled_quadratic"))
    for whole in (plain, sampled):
        few = devices_of(whole, np.arange(6))
        for member in (Sampled, Descending, ByClient, Solved):
            assert isinstance(few, member) == isinstance(whole, member)
        assert LocalWork.checked(few, 2, 0.1).descending is (
            few if whole is plain else LocalWork.checked(few, 2, 0.1).descending
        )
        assert len(few.by_client(np.zeros(10))["loss"]) == 6  # type: ignore[attr-defined]
    assert (
        generalisation(plain, {"it": End(*(np.zeros(10),) * 3, drawn_round=0)}, np.zeros(9, dtype=np.int64), ["a"])
        == {}
    )
