"""The audit of a stated epsilon: near to it and never above, unless code or rounds break what it rests on."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import Scenario, privacy_guarantees, simulate
from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError, ScenarioError
from fedsim.learning import FedAvg
from fedsim.learning.optimizers.optimizer import Cohort
from fedsim.learning.private import Noise, Private
from fedsim.privacy import ParticipationBounds, epsilon_of, noise_for
from fedsim.run.audit import audit


def private(mechanism: Any = "banded", optimizers: list[Any] | None = None, **changes: Any) -> Scenario:
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


class LouderInLargeCohorts(FedAvg):
    """The same, but where more than two reports came."""

    def apply(self, state: Any, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Any, Floats]:
        return super().apply(state, model, cohort, deltas * (100 if len(deltas) > 2 else 1))


class Later(Hoarder):
    """A server that gives the longest update so far once again, ten rounds later."""

    def apply(self, state: Any, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Any, Floats]:
        again = 50 * state if cohort.round % 10 == 9 else 0.0
        kept = deltas.sum(axis=0)
        kept = kept if np.linalg.norm(kept) > np.linalg.norm(state) else state
        return kept, model + deltas.mean(axis=0) + again


CHEATS = ("Louder", "LouderInLargeCohorts", "Hoarder", "Later")


@pytest.mark.parametrize("cohort", [3, 20])
@pytest.mark.parametrize("name", CHEATS)
def test_an_optimizer_that_releases_more_is_refuted(name: str, cohort: int) -> None:
    scenario = private("independent", [f"{__name__}:{name}"], stop={"rounds": 60}, server={"cohort": cohort})
    (found,) = audit(scenario)
    assert found.refuted
    assert found.at_least > 2 * 8


@pytest.mark.parametrize("name", CHEATS)
def test_the_cohorts_of_a_log_are_tried(name: str) -> None:
    """Reports are lost at the deadline, so that cohorts have any size from none to five."""
    scenario = private(
        "independent",
        [f"{__name__}:{name}"],
        stop={"rounds": 60},
        population=[{"devices": 40, "separation": 2, "session": {"train": {"kind": "exponential", "mean": "60s"}}}],
        server={"cohort": 5, "deadline": "90s"},
    )
    run = simulate(scenario)
    assert set(run.participations.filter(outcome="reported")["round"].value_counts()["count"]) >= {1, 2, 3}
    assert audit(scenario, run)[0].refuted


class Quiet:
    """A mechanism whose noise is a thousandth of what its coefficients promise, in all columns or but for a few."""

    def __init__(self, right: int = 0) -> None:
        self.right = right

    def coefficients(self, _bounds: ParticipationBounds) -> Floats:
        return np.ones(1)

    def correlate(self, rows: Iterator[Floats], _bounds: ParticipationBounds) -> Iterator[Floats]:
        for row in rows:
            own = np.linspace(0, len(row) - 1, self.right).astype(int) if len(row) > 40 else np.arange(len(row))
            yield np.where(np.isin(np.arange(len(row)), own if self.right else ()), row, 0.001 * row)


def test_a_mechanism_with_less_noise_in_any_column_trains_nothing() -> None:
    """Eight columns, spread evenly, are right where there are many, and all where there are few."""
    with pytest.raises(ScenarioError, match=r"row 0 of its correlate is not that of C\^-1 Z"):
        audit(private({"kind": f"{__name__}:Quiet"}))
    with pytest.raises(PluginError, match=r"row 0 of its correlate is not that of C\^-1 Z"):
        audit(private({"kind": f"{__name__}:Quiet", "right": 8}))


def test_noise_that_is_only_right_where_it_was_checked_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its size, were it not checked as it is made."""
    made = Noise.rows

    def fewer(self: Noise, dimension: int) -> Iterator[Floats]:
        return (np.where(np.arange(dimension) % 250 == 0, row, 0.0) for row in made(self, dimension))

    monkeypatch.setattr(Noise, "rows", fewer)
    assert audit(private("independent", stop={"rounds": 60}))[0].at_least > 16


def test_updates_that_are_not_finite_are_no_hiding_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where training makes something of them."""
    kept = Private.apply

    def careless(self: Private, state: Any, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Any, Floats]:
        return kept(self, state, model, cohort, np.where(np.isfinite(deltas), deltas, 0.5))

    monkeypatch.setattr(Private, "apply", careless)
    (found,) = audit(private(stop={"rounds": 20}))
    assert (found.refuted, found.fault) == (True, "an update that is not finite changes its models")


class ReadsCoins(FedAvg):
    """A class that says that its weights ignore the schedule, and divides by how many came."""

    @staticmethod
    def ignores_schedule(_options: object) -> bool:
        return True

    def prepare(self, state: Any, cohort: Cohort) -> Any:
        return state, np.full(len(cohort.clients), 1 / len(cohort.clients))


@pytest.mark.parametrize("cohort", [2, 9])
def test_weights_that_read_the_coins_are_refuted(cohort: int) -> None:
    privacy = {"mechanism": "independent", "epsilon": 8, "delta": 1e-6, "clip": 1, "training": "noise"}
    for name, fault in (("fedavg", False), (f"{__name__}:ReadsCoins", True)):
        scenario = private(
            optimizers=[name],
            stop={"rounds": 40},
            population=[{"devices": 600}],
            server={"cohort": cohort, "selection": "poisson"},
            privacy=privacy | {"amplification": "sampling"},
        )
        (found,) = audit(scenario)
        assert bool(found.fault) == found.refuted == fault


def test_a_warm_start_has_noise_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else m2 - 2 m1 is free of it; training is from zero, without updates, so that models are sums of noise."""
    still = {"problem": {"kind": "quadratic", "dimension": 4_000, "cluster_spread": 0, "spread": 0, "clusters": 1}}
    learning = still | {"optimizers": ["fedavg"], "step_size": 1e-12, "evaluate_every": 20}
    alone = private("independent", stop={"rounds": 20}, learning=learning)
    first = simulate(alone).models["fedavg.last"]
    np.savez(tmp_path / "models.npz", model=first)
    monkeypatch.chdir(tmp_path)
    warm = alone.with_values({"learning.start": {"path": "models.npz"}})
    added = simulate(warm).models["fedavg.last"] - first
    assert abs(np.corrcoef(first, added)[0, 1]) < 4 / math.sqrt(4_000)
    assert added.std() == pytest.approx(first.std(), rel=0.1)
    assert [each.released for each in audit(warm)] == ["fedavg"]
    (said,) = [each for each in privacy_guarantees(warm).caveats if "learning.start" in each]
    assert f"both would cost epsilon = {epsilon_of(noise_for(8, 1e-6) / math.sqrt(2), 1e-6):.4g}" in said
    monkeypatch.setattr("fedsim.run.training._start", lambda *_: None)  # as it was: by the seed alone
    assert [each.released for each in audit(warm)] == ["fedavg", "the models and that at which they start"]


def test_two_settings_of_a_sweep_share_their_noise() -> None:
    swept = private(stop={"rounds": 40}, sweep={"grid": {"population.*.separation": [9, 4]}})
    assert [each.released for each in audit(swept)] == ["fedavg", "the models of two settings"]
    assert any("it covers the model of one of 2 settings" in each for each in privacy_guarantees(swept).caveats)
    seeds = private(stop={"rounds": 40}, sweep={"seeds": 2})
    assert [each.released for each in audit(seeds)] == ["fedavg"]


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
