"""The audit of a stated epsilon: near to it and never above, unless code or rounds break what it rests on."""

import math
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.common.arrays import Floats
from fedsim.common.errors import ScenarioError
from fedsim.learning import FedAvg
from fedsim.learning.optimizers.optimizer import Cohort
from fedsim.run.audit import audit


def private(mechanism: str = "banded", optimizers: list[Any] | None = None, **changes: Any) -> Scenario:
    data = {
        "stop": {"rounds": 200},
        "population": [{"devices": 600, "separation": 9}],
        "server": {"cohort": 20},
        "learning": {"problem": {"kind": "quadratic"}, "optimizers": optimizers or ["fedavg"], "step_size": 0.1},
        "privacy": {"mechanism": mechanism, "epsilon": 8, "delta": 1e-6, "clip": 1, "training": "noise"},
    }
    return Scenario.model_validate(data | changes)


class Louder(FedAvg):
    """A server that takes the clipped updates a hundred times."""

    def apply(self, state: Any, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Any, Floats]:
        return super().apply(state, model, cohort, 100 * deltas)


class Hoarder(FedAvg):
    """A server that gives the sum of all updates so far in each round."""

    def init(self, clients: int, dimension: int) -> Any:
        super().init(clients, dimension)
        return np.zeros(dimension)

    def prepare(self, state: Any, cohort: Cohort) -> Any:
        return state, np.ones(len(cohort.clients))

    def apply(self, state: Any, model: Floats, _cohort: Cohort, deltas: Floats) -> tuple[Any, Floats]:
        state = state + deltas.mean(axis=0)
        return state, model + state


@pytest.mark.parametrize("epsilon", [1, 8])
@pytest.mark.parametrize("mechanism", ["independent", "banded", "blt", "sqrt"])
def test_a_kept_promise_is_nearly_reached_and_not_refuted(mechanism: str, epsilon: float) -> None:
    """A bound is too high in one of 1,000 audits."""
    (found,) = audit(private(mechanism).with_values({"privacy.epsilon": epsilon}))
    assert found.stated == pytest.approx(epsilon)
    assert 0.8 * epsilon <= found.at_least <= epsilon


def test_caps_and_a_server_update_are_audited_as_they_are() -> None:
    capped = private(
        optimizers=[{"kind": "debiased_fedavg", "update_clip": 3, "server": {"kind": "sgd", "step_size": 0.1}}],
        population=[
            {"name": "tablets", "devices": 50, "separation": 0, "participations": {"most": 3}},
            {"name": "phones", "devices": 600, "separation": 19},
        ],
    )
    (found,) = audit(capped)
    assert 0.8 * 8 <= found.at_least <= 8


@pytest.mark.parametrize("name", ["Louder", "Hoarder"])
def test_an_optimizer_that_releases_more_is_refuted(name: str) -> None:
    (found,) = audit(private("independent", [f"{__name__}:{name}"]))
    assert found.refuted
    assert found.at_least > 2 * 8


def test_two_models_with_the_same_noise_have_none_between_them() -> None:
    *alone, both = audit(private(optimizers=["fedavg", {"kind": "debiased_fedavg", "update_clip": 2}]))
    assert not any(each.refuted for each in alone)
    assert (both.released, both.stated, both.at_least) == ("fedavg and debiased_fedavg", None, math.inf)


def test_rounds_that_another_side_leaves_out_cost_what_they_cost() -> None:
    """Eight devices, R = 19, cohorts of four: two rounds of twenty have reports."""
    scenario = private(
        stop={"rounds": 600},
        population=[{"devices": 8, "separation": 19}],
        server={"cohort": 4, "shortage": "skip", "pause": "1m"},
    )
    own, left_out = audit(scenario, simulate(scenario))
    assert 0.75 * 8 <= own.at_least <= 8
    assert left_out.released == "without its empty rounds"
    assert left_out.at_least > 25


def test_without_noise_there_is_nothing_to_audit() -> None:
    with pytest.raises(ScenarioError, match="there is no noise to audit"):
        audit(private().with_values({"privacy.training": "clip"}))
