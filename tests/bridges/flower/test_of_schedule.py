"""Replay: the cohorts of the log, whatever the order of nodes, and the models of fedsim's own replay."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg

from fedsim.common.errors import RunError
from fedsim.flower import PARTITION, DebiasedFedAvg, InProcessGrid, Replay, read_schedule, tell_partition
from fedsim.run.simulate import simulate
from tests.bridges.flower.federations import client_app, losses, losses_of, problem_of, ran, trained
from tests.conftest import Load

QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}


def test_cohorts_reports_and_models_are_those_of_the_log(small: Load, tmp_path: Path) -> None:
    result, problem = ran(small), problem_of(12)
    schedule = read_schedule(result.save(tmp_path / "run"))
    found = []
    for seed in (1, 2):
        order = list(range(12))
        random.Random(seed).shuffle(order)
        grid = InProcessGrid(client_app(problem), order)
        strategy = Replay(FedAvg(**QUIET), schedule)
        found.append(trained(strategy, grid, problem))
        assert strategy.sent == [each.clients.tolist() for each in schedule]
        assert strategy.received == [each.reporting.tolist() for each in schedule]
        delivered = [partition for partition, kind in grid.log if kind == "train"]
        assert delivered == [client for each in schedule for client in each.clients]
        assert sum(kind == f"query.{PARTITION}" for _, kind in grid.log) == 12
    assert found[0].tobytes() == found[1].tobytes()
    assert losses_of(found[0], problem) == pytest.approx(losses(result, problem, "fedavg"), rel=1e-12)


def test_single_precision_stays_near(small: Load, tmp_path: Path) -> None:
    result, problem = ran(small), problem_of(12)
    grid = InProcessGrid(client_app(problem, np.float32), 12)
    models = trained(Replay(FedAvg(**QUIET), result.save(tmp_path / "run")), grid, problem, np.float32)
    assert models.dtype == np.float32
    assert losses_of(models, problem) == pytest.approx(losses(result, problem, "fedavg"), rel=1e-5)


def test_a_round_may_have_one_client_or_none(small: Load, tmp_path: Path) -> None:
    lonely = (
        "server.cohort=1",
        "server.shortage=skip",
        "population.0.availability={kind: renewal, on: 10m, off: 100m}",
    )
    result, problem = simulate(small(*lonely)), problem_of(12)
    schedule = read_schedule(result.save(tmp_path / "run"))
    assert {len(each.clients) for each in schedule} == {0, 1}
    strategy = Replay(FedAvg, schedule)
    strategy.strategy.fraction_evaluate = 0.0
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    assert losses_of(models, problem) == pytest.approx(losses(result, problem, "fedavg"), rel=1e-12)
    assert (strategy.strategy.min_train_nodes, strategy.strategy.min_available_nodes) == (2, 2)


def test_other_strategies_go_too(small: Load, tmp_path: Path) -> None:
    problem, schedule = problem_of(12), read_schedule(ran(small).save(tmp_path / "run"))
    adam = Replay(FedAdam(fraction_train=0.3, eta=0.3, **QUIET), schedule)
    models = trained(adam, InProcessGrid(client_app(problem), 12), problem)
    assert adam.sent == [each.clients.tolist() for each in schedule]
    assert losses_of(models, problem)[-1] < losses_of(models, problem)[0]


class Half(FedAvg):
    """Sends to the first half of the nodes that there are."""

    def configure_train(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,
    ) -> list[Message]:
        there = list(grid.get_node_ids())
        return [Message(RecordDict({"arrays": arrays}), node, "train") for node in there[: len(there) // 2]]


def test_what_cannot_be_replayed_is_told(small: Load, tmp_path: Path) -> None:
    problem, schedule = problem_of(12), read_schedule(ran(small).save(tmp_path / "run"))
    app = client_app(problem)
    with pytest.raises(RunError, match=r"round 0: Half sends to \d nodes, and the cohort has \d; it must send to all"):
        trained(Replay(Half(), schedule), InProcessGrid(app, 12), problem)
    with pytest.raises(RunError, match="has 60 rounds, and Flower asks for round 61"):
        trained(Replay(FedAvg(**QUIET), schedule), InProcessGrid(app, 12), problem, num_rounds=61)
    with pytest.raises(RunError, match=r"no node has partition .* and 5 nodes are connected"):
        trained(Replay(FedAvg(**QUIET), schedule, wait_s=0.1), InProcessGrid(app, 5), problem)
    with pytest.raises(RunError, match="both have partition 3; each needs its own"):
        trained(Replay(FedAvg(**QUIET), schedule), InProcessGrid(app, [*range(12), 3]), problem)


def failing(app: ClientApp, partition: int) -> ClientApp:
    """Return an app that raises on one node, and is another one elsewhere."""
    broken = ClientApp()
    broken.query(PARTITION)(tell_partition)

    @broken.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == partition:
            raise OSError("no battery")
        return app(message, context)

    return broken


def test_a_report_that_the_log_has_must_come(small: Load, tmp_path: Path) -> None:
    problem, schedule = problem_of(12), read_schedule(ran(small).save(tmp_path / "run"))
    first = int(schedule[0].reporting[0])
    grid = InProcessGrid(failing(client_app(problem), first), 12)
    with pytest.raises(
        RunError, match=f"round 0: client {first} reported in the schedule, and its reply is an error.*no b"
    ):
        trained(Replay(FedAvg(**QUIET), schedule), grid, problem)

    class Deaf(InProcessGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            return [each for each in super().pull_messages(message_ids) if "arrays" not in each.content]

    with pytest.raises(RunError, match="reported in the schedule, and there is no reply"):
        trained(Replay(FedAvg(**QUIET), schedule), Deaf(client_app(problem), 12), problem)


def test_what_the_log_did_not_take_counts_for_nothing(small: Load, tmp_path: Path) -> None:
    problem, schedule = problem_of(12), read_schedule(ran(small).save(tmp_path / "run"))
    lost = int(schedule[0].clients[~schedule[0].reported][0])
    found = []
    for app in (client_app(problem), failing(client_app(problem), lost)):
        grid = InProcessGrid(app, 12)
        found.append(trained(Replay(FedAvg(**QUIET), schedule), grid, problem, num_rounds=1))
        assert (lost, "train") in grid.log
    assert found[0].tobytes() == found[1].tobytes()


def test_a_client_app_that_does_not_tell_is_named(small: Load, tmp_path: Path) -> None:
    problem, schedule = problem_of(12), read_schedule(ran(small).save(tmp_path / "run"))
    with pytest.raises(RunError, match=r"does not tell its partition .*needs the line `app.query\(PARTITION\)"):
        trained(Replay(FedAvg(**QUIET), schedule), InProcessGrid(ClientApp(), 12), problem)


def test_a_node_that_comes_back_under_another_name_is_found(small: Load, tmp_path: Path) -> None:
    result, problem = ran(small), problem_of(12)
    strategy = Replay(FedAvg(**QUIET), result.save(tmp_path / "run"))

    class Renamed(InProcessGrid):
        def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
            replies = super().send_and_receive(messages, timeout=timeout)
            if 100 < len(self.log) < 110:
                self._contexts = {node + 1_000: context for node, context in self._contexts.items()}
            return replies

    grid = Renamed(client_app(problem), 12)
    models = trained(strategy, grid, problem)
    assert min(grid.get_node_ids()) > 1_011
    assert sum(kind == f"query.{PARTITION}" for _, kind in grid.log) >= 24
    assert losses_of(models, problem) == pytest.approx(losses(result, problem, "fedavg"), rel=1e-12)


def test_debiased_goes_with_it(small: Load, tmp_path: Path) -> None:
    result, problem = ran(small), problem_of(12)
    strategy = Replay(DebiasedFedAvg(scale="steps", **QUIET), result.save(tmp_path / "run"))
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    assert losses_of(models, problem) == pytest.approx(losses(result, problem, "debiased_fedavg"), rel=1e-12)
