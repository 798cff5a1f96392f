"""DebiasedFedAvg and FedAU: fedsim's own replay, with clients that train by Flower's messages."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedsim.common.errors import RunError
from fedsim.flower import PARTITION, STEP_SCALE, DebiasedFedAvg, FedAU, InProcessGrid, Replay, tell_partition
from fedsim.learning import frequencies
from fedsim.run.run import Result
from fedsim.scenario import Scenario
from tests.bridges.flower.federations import client_app, losses, losses_of, problem_of, ran, trained
from tests.conftest import SMALL

QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}
REPORTS = {"exponent": 0.0, "count": "reports"}
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "steps": (lambda: DebiasedFedAvg(scale="steps", **QUIET), "debiased_fedavg", {}),
    "clipped": (lambda: DebiasedFedAvg(scale="steps", clip=1.5, **QUIET), "debiased_fedavg", {"clip": 1.5}),
    "prior": (
        lambda: DebiasedFedAvg(scale="steps", warm_up=7, prior=2.0, **QUIET),
        "debiased_fedavg",
        {"warm_up": 7, "prior": 2.0},
    ),
    "changes": (lambda: DebiasedFedAvg(counts="shares", **QUIET), "debiased_fedbuff", REPORTS),
    "changes clipped": (
        lambda: DebiasedFedAvg(clip=1.5, counts="shares", **QUIET),
        "debiased_fedbuff",
        {**REPORTS, "clip": 1.5},
    ),
    "fedau": (lambda: FedAU(cutoff=9, **QUIET), "fedau", {"cutoff": 9}),
    "fedau, open": (lambda: FedAU(cutoff=None, **QUIET), "fedau", {"cutoff": None}),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    path = tmp_path_factory.mktemp("run") / "small.fedsim.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return ran(lambda *overrides: Scenario.load(path, overrides))


@pytest.mark.parametrize("case", CASES)
def test_the_loss_of_every_round_is_that_of_fedsim(run: Result, tmp_path: Path, case: str) -> None:
    make, kind, options = CASES[case]
    problem = problem_of(12)
    strategy = Replay(make(), run.save(tmp_path / "run"))
    models = trained(strategy, InProcessGrid(client_app(problem), range(11, -1, -1)), problem)
    expected = losses(run, problem, kind, **options)
    assert losses_of(models, problem) == pytest.approx(expected, rel=1e-11)
    assert expected[-1] != pytest.approx(losses(run, problem, "fedavg")[-1], rel=1e-3)


def test_frequencies_that_are_known(run: Result, tmp_path: Path) -> None:
    problem, pi = problem_of(12), frequencies(run.participations, 12)
    strategy = Replay(DebiasedFedAvg(scale="steps", pi=pi, **QUIET), run.save(tmp_path / "run"))
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    assert losses_of(models, problem) == pytest.approx(losses(run, problem, "oracle_weighted", pi=pi), rel=1e-11)


def test_known_frequencies_weight_what_comes_back(run: Result, tmp_path: Path) -> None:
    problem, pi = problem_of(12), frequencies(run.participations, 12)
    strategy = Replay(DebiasedFedAvg(pi=pi.tolist(), **QUIET), run.save(tmp_path / "run"))
    plain = Replay(FedAvg(**QUIET), strategy.schedule)
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem, num_rounds=1)
    grid = InProcessGrid(client_app(problem), 12)
    start = trained(plain, grid, problem, num_rounds=1)[0]
    reporting = strategy.schedule[0].reporting
    expected = start.copy()
    for client in reporting.tolist():
        model = start[None]
        for _ in range(3):
            model = model - 0.1 * problem.gradients(np.array([client]), model)
        expected += (model[0] - start) / (12 * pi[client]) / len(reporting)
    assert models[1] == pytest.approx(expected, rel=1e-12)


def without_schedule(problem: Any, strategy: Any, rounds: int) -> tuple[Any, list[list[int]]]:
    """Train by a strategy that samples by itself; return its models and who was sampled in each round."""
    grid = InProcessGrid(client_app(problem), 12)
    models = trained(strategy, grid, problem, num_rounds=rounds)
    asked = [partition for partition, kind in grid.log if kind == "train"]
    return models, [asked[4 * t : 4 * t + 4] for t in range(rounds)]


def test_it_counts_without_a_schedule_too() -> None:
    problem = problem_of(12)
    strategy = DebiasedFedAvg(scale="steps", fraction_train=0.34, min_train_nodes=4, **QUIET)
    models, cohorts = without_schedule(problem, strategy, 30)
    times, model = np.zeros(12), problem.initial()
    for t, cohort in enumerate(cohorts):
        times[cohort] += 1
        nu = 4 * (t + 1) / (12 * times[cohort])
        local = np.tile(model, (4, 1))
        for _ in range(3):
            local -= 0.1 * nu[:, None] * problem.gradients(np.array(cohort), local)
        model = model + (local - model).mean(axis=0)
        assert models[t + 1] == pytest.approx(model, rel=1e-11)
    assert strategy.clients == 12


def test_what_fails_is_not_counted() -> None:
    problem, app = problem_of(12), ClientApp()
    app.query(PARTITION)(tell_partition)
    good = client_app(problem)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 5:
            raise OSError("no battery")
        return good(message, context)

    strategy = DebiasedFedAvg(scale="steps", **QUIET)
    trained(strategy, InProcessGrid(app, 12), problem, num_rounds=6)
    assert strategy._state.of_client.tolist() == [0 if client == 5 else 6 for client in range(12)]


def test_a_client_that_does_not_scale_its_steps_is_told(run: Result, tmp_path: Path) -> None:
    app, problem = ClientApp(), problem_of(12)
    app.query(PARTITION)(tell_partition)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        content = {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    directory = run.save(tmp_path / "run")
    strategy = Replay(DebiasedFedAvg(scale="steps", **QUIET), directory)
    with pytest.raises(RunError, match=r"was to multiply its step size by .*'step-scale'.*scale='changes'"):
        trained(strategy, InProcessGrid(app, 12), problem)
    trained(Replay(DebiasedFedAvg(**QUIET), directory), InProcessGrid(app, 12), problem)  # which asks nothing of it


def test_every_array_keeps_its_type_and_shape(run: Result, tmp_path: Path) -> None:
    app = ClientApp()
    app.query(PARTITION)(tell_partition)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = {name: Array(each.numpy() + 1) for name, each in message.content["arrays"].items()}
        metrics = MetricRecord({"num-examples": 1, STEP_SCALE: message.content["config"].get(STEP_SCALE, 1.0)})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)

    start = ArrayRecord({"a": Array(np.zeros((2, 3), np.float32)), "b": Array(np.zeros(4, np.float16))})
    strategy = Replay(DebiasedFedAvg(**QUIET), run.save(tmp_path / "run"))
    result = strategy.start(InProcessGrid(app, 12), start)
    assert [(each.numpy().shape, each.numpy().dtype.name) for each in result.arrays.values()] == [
        ((2, 3), "float32"),
        ((4,), "float16"),
    ]
    assert set(result.train_metrics_clientapp) == {
        t + 1 for t, each in enumerate(strategy.schedule) if each.reported.any()
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "both"}, "scale is 'both'; it is 'changes' or 'steps'"),
        ({"clip": 0.5}, "clip is 0.5; it must be at least 1"),
        ({"prior": -1}, "must be at least 0"),
        ({"pi": [0.5, 0.6]}, "their sum must be 1"),
        ({"pi": [0.5, 0.5], "clients": 3}, "pi has 2 shares, and there are 3 clients"),
        ({"pi": [0.5, 0.5], "clip": 2}, "are for weights that are counted, and pi is given"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DebiasedFedAvg(**options)


def test_more_clients_than_were_told_are_refused(run: Result, tmp_path: Path) -> None:
    problem = problem_of(12)
    strategy = Replay(DebiasedFedAvg(clients=3, **QUIET), run.save(tmp_path / "run"))
    with pytest.raises(RunError, match="and the strategy was told of 3 clients"):
        trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    with pytest.raises(ValueError, match="cutoff is 0; it must be at least 1"):
        FedAU(cutoff=0)
