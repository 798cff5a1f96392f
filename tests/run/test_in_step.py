"""Learning in step with the simulation: what a law is told, the same bytes in both engines and after kills."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.common.errors import ScenarioError
from fedsim.learning import LearningError, LocalWork, build_problem
from fedsim.learning.in_step import InStep
from fedsim.log import fingerprint
from fedsim.log.journal import Journal
from fedsim.population import build_population
from fedsim.run.evaluate import learner_of
from fedsim.run.files import Provenance
from fedsim.run.preflight import preflight
from fedsim.run.simulate import record
from fedsim.scenario import Scenario
from fedsim.selection import Feedback
from fedsim.simulation import Closed, simulate_log
from tests.run.test_live import BUFFERED, ENGINES, LAWS, made

LEARNING: dict[str, Any] = {
    "problem": {"kind": "quadratic", "dimension": 3, "cluster_spread": 2.0, "clusters": 3},
    "optimizers": ["fedavg", "debiased_fedavg"],
    "step_size": 0.1,
    "evaluate_every": 1,
}


def training(law: Any = "oort", server: dict[str, Any] | None = None, **learning: Any) -> Scenario:
    data = made(law, **(server or {})).model_dump(mode="json")
    return Scenario.model_validate({**data, "learning": {**LEARNING, **learning}})


class Listening:
    """A learner that keeps what it is told, and the rounds."""

    def __init__(self, scenario: Scenario) -> None:
        self.inner = learner_of(preflight(scenario))
        self.heard = list[tuple[Closed, Feedback]]()

    def train(self, closed: Closed) -> Feedback:
        assert self.inner is not None
        self.heard.append((closed, self.inner.train(closed)))
        return self.heard[-1][1]

    def state(self) -> None: ...

    def restore(self, state: Any) -> None: ...


@pytest.mark.parametrize("server", [{}, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize("problem", ["quadratic", {"kind": "robust_regression", "dimension": 3, "samples": 8}])
def test_the_losses_are_those_of_the_models_of_the_replay(server: dict[str, Any], problem: Any) -> None:
    """The models after each round by `replay` with one optimizer, in which a client's loss is computed by itself."""
    scenario = training("loss_proportional", server, problem=problem, optimizers=["fedavg"])
    learner, population = Listening(scenario), build_population(scenario)
    log = simulate_log(scenario, population, learner=learner)
    result = fedsim.simulate(scenario)
    assert fingerprint(result.participations) == fingerprint(log.participations)
    assert result.learning is not None
    assert scenario.learning is not None
    own = scenario.learning.problem
    made_of = build_problem(own.kind, own.options, clients=30, seed=scenario.seed)
    inner = learner.inner
    assert isinstance(inner, InStep)
    assert made_of.evaluate(inner._run.model)["loss"] == result.learning["loss"][-1]
    told = [feedback for _, feedback in learner.heard]
    first = told[0]
    start = np.tile(made_of.initial(), (30, 1))
    expected = made_of.losses(np.arange(30), start)  # type: ignore[attr-defined]
    clients = first.clients[first.reported]
    np.testing.assert_array_equal(first.losses[first.reported], expected.mean(axis=1)[clients])
    np.testing.assert_allclose(first.rms_losses[first.reported], np.sqrt((expected**2).mean(axis=1))[clients])
    work = LocalWork.checked(made_of, 5, 0.1)
    moved = work.updates(clients, start[clients], np.full(len(clients), 0.1))
    np.testing.assert_allclose(first.norms[first.reported], np.linalg.norm(moved, axis=1))
    assert all(np.isnan(each.losses[~each.reported]).all() for each in told)
    assert len(told) == len(log.rounds.filter(log.rounds["outcome"] != "stopped")) or not server


@pytest.mark.parametrize("problem", ["quadratic", "robust_regression", "softmax_regression", "torch"])
def test_the_losses_of_all_clients_are_the_loss_of_the_federation(problem: str) -> None:
    pytest.importorskip("torch" if problem == "torch" else "numpy")
    options: dict[str, Any] = {"softmax_regression": {"l2": 0.0}}.get(problem, {})
    found: Any = build_problem(problem, options, clients=12, seed=3)
    model = found.initial() + 0.01 * np.arange(found.dimension) / found.dimension
    losses = found.losses(np.arange(12), np.tile(model, (12, 1)))
    assert losses.shape == (12, getattr(found, "samples", 1))
    assert (losses >= 0).all()
    assert losses.mean() == pytest.approx(found.evaluate(model)["loss"], rel=1e-5)


@pytest.mark.parametrize("server", [{}, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize("law", LAWS)
def test_both_engines_train_and_select_the_same(law: str, server: dict[str, Any]) -> None:
    runs = [fedsim.simulate(training(law, server).model_copy(update={"engine": engine})) for engine in ENGINES]
    assert runs[0].metrics == runs[1].metrics
    for name, table in runs[0].tables.items():
        assert fingerprint(table) == fingerprint(runs[1].tables[name])
    other = fedsim.simulate(training(law, server, step_size=0.02))
    assert (law == "refl") == other.participations.equals(runs[0].participations)


class Often(Journal):
    def due(self) -> bool:
        return True


@pytest.mark.parametrize("optimizer", ["fedavg", "scaffold"])
def test_killed_and_resumed_a_run_has_the_same_bytes(tmp_path: Path, optimizer: str) -> None:
    """Killed after some rounds, again and again; FedAvg's model is kept, SCAFFOLD's state is not, and begins anew."""
    scenario = training("oort", optimizers=[optimizer])
    file = tmp_path / "case.fedsim.yaml"
    file.write_text(str(scenario.model_dump_json(exclude_unset=True)))
    scenario = Scenario.load(file)
    record(scenario, tmp_path / "whole", Provenance())
    said = list[str]()
    for after in (9, 17, 25, None):
        calls = 0

        def report(what: str, _share: float, _more: str = "", limit: int | None = after) -> None:
            nonlocal calls
            calls += what == "simulating"
            if limit is not None and calls >= limit:
                raise KeyboardInterrupt

        try:
            record(
                scenario,
                tmp_path / "cut",
                Provenance(),
                resume=True,
                progress=report,
                tell=said.append,
                journal_of=Often,
            )
        except KeyboardInterrupt:
            continue
    for path in (tmp_path / "whole").iterdir():
        if path.name.endswith((".parquet", "metrics.json")):
            assert path.read_bytes() == (tmp_path / "cut" / path.name).read_bytes(), path.name
    resumed = any("going on at round" in line for line in said)
    assert resumed == (optimizer == "fedavg")


def test_scenarios_that_cannot_train_in_step_are_refused() -> None:
    for scenario, message in (
        (
            training(optimizers=["oracle_weighted"]),
            "'oracle_weighted' has to know the log before it begins; put another",
        ),
        (training(loss_parts=True), "who takes part depends on the noise that loss_parts would leave out"),
    ):
        with pytest.raises(ScenarioError, match=message):
            fedsim.simulate(scenario)
    private = Scenario.model_validate(
        {**training().model_dump(mode="json"), "privacy": {"noise_multiplier": 1.0, "delta": 1e-6}}
    )
    for asked in (fedsim.simulate, fedsim.privacy_guarantees, fedsim.live):
        with pytest.raises(ScenarioError, match="this law goes by what clients tell of their data"):
            asked(private)
    with pytest.raises(fedsim.ChainError, match="no theory covers the selection law 'oort'"):
        fedsim.participation_theory(training())
    with pytest.raises(LearningError, match=r"optimizer 'fedavg' has diverged in round .*no losses of clients to sel"):
        fedsim.simulate(training(step_size=1e3))
