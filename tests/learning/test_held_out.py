"""Clients held out: training is blind to them, no figure of participation knows of them, and gaps are as by hand."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedsim
from fedsim import Scenario
from fedsim.learning import build_problem
from fedsim.learning.held_out import first_clients, generalisation, places_of
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
    """With them the log, the models and all figures of participation are the same, to the last bit."""
    without, among = fedsim.simulate(case()), fedsim.simulate(case(held_out=7))
    assert without.participations.equals(among.participations)
    for name, model in without.models.items():
        np.testing.assert_array_equal(model, among.models[name], err_msg=name)
    apart = {name for name, value in without.metrics.items() if among.metrics.get(name) != value}
    assert all(name.startswith("learning.") for name in apart)
    assert not any("of_tenth" in name or "of_group" in name for name in apart)
    assert not any("held_out" in name or "_gap" in name for name in without.metrics)


def test_the_gap_is_that_of_two_samples() -> None:
    """Against the formulas of Welch by scipy, and means by hand; groups are those of the devices in proportion."""
    run = fedsim.simulate(case(held_out=6))
    problem = Quadratic(clients=18, seed=4, dimension=2)
    losses = problem.by_client(run.models["fedavg.average"])["loss"]
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


def test_the_first_clients_can_what_the_whole_can() -> None:
    """Optional members are those of the whole problem, so that the same code trains."""
    plain, sampled = (build_problem(kind, {}, clients=9, seed=1) for kind in ("quadratic", "sampled_quadratic"))
    for whole in (plain, sampled):
        few = first_clients(whole, 6)
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
