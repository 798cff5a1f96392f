"""A scenario as the client manager and clock of a Flower app: rounds, versions, and losses that come back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import fedsim
from fedsim.common.errors import RunError
from fedsim.flower import PARTITION, InProcessGrid, Live, Replay, tell_partition
from fedsim.scenario import Scenario
from tests.bridges.flower.federations import OVERRIDES, STEP_SIZE, STEPS, client_app, losses_of, problem_of, trained
from tests.conftest import Load

LEARNING = (
    f"learning={{problem: {{kind: quadratic, clusters: 4, cluster_spread: 2.0, data_seed: 3}}, optimizers: [fedavg], "
    f"local_steps: {STEPS}, step_size: {STEP_SIZE}, evaluate_every: 1}}"
)


def telling(problem: Any) -> ClientApp:
    """Return an app that trains as `client_app` does, and tells the loss of the model that it was sent."""
    inner, app = client_app(problem), ClientApp()
    app.query(PARTITION)(tell_partition)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = np.array([int(context.node_config["partition-id"])])
        loss = problem.losses(client, message.content["arrays"]["x"].numpy()[None]).mean()
        reply = inner(message, context)
        reply.content["metrics"] = MetricRecord({"num-examples": 1, "train_loss": float(loss)})
        return reply

    return app


def test_a_fixed_law_gives_the_bits_of_a_replay(small: Load, tmp_path: Path) -> None:
    scenario, problem = small(*OVERRIDES), problem_of(12)
    strategy = Live(FedAvg(fraction_evaluate=0.0), scenario)
    models = trained(strategy, InProcessGrid(client_app(problem), 12), problem)
    run = fedsim.simulate(scenario)
    replayed = Replay(FedAvg(fraction_evaluate=0.0), run.save(tmp_path / "run"))
    assert models.tobytes() == trained(replayed, InProcessGrid(client_app(problem), 12), problem).tobytes()
    assert (strategy.sent, strategy.received) == (replayed.sent, replayed.received)
    assert strategy.fleet.result().participations.equals(run.participations)


@pytest.mark.parametrize("law", ["oort", "power_of_choice", "loss_proportional", "refl"])
def test_laws_that_need_feedback_select_as_in_fedsims_own_run(small: Load, law: str) -> None:
    """The same clients as where fedsim's FedAvg trains in step, on the same objectives, and the same losses."""
    scenario, problem = small(*OVERRIDES, f"server.selection={law}", LEARNING), problem_of(12)
    strategy = Live(FedAvg(fraction_evaluate=0.0), scenario)
    models = trained(strategy, InProcessGrid(telling(problem), 12), problem)
    run = fedsim.simulate(scenario)
    assert strategy.fleet.result().participations.equals(run.participations)
    assert run.learning is not None
    assert losses_of(models, problem) == pytest.approx(run.learning["loss"].to_list(), rel=1e-12)


def buffered(small: Load, *overrides: str) -> Scenario:
    server = "server={mode: buffered, concurrency: 6, buffer: 3, selection: oort, cooldown_from: reported}"
    return small(OVERRIDES[0], OVERRIDES[1], "population.0.separation=1", server, LEARNING, *overrides)


def test_buffered_asynchronous_training_is_that_of_fedsim(small: Load) -> None:
    scenario, problem = buffered(small), problem_of(12)
    strategy = Live(FedAvg(fraction_evaluate=0.0), scenario)
    models = trained(strategy, InProcessGrid(telling(problem), 12), problem)
    run = fedsim.simulate(scenario)
    assert max(run.participations["staleness"].drop_nulls().to_list()) > 0
    assert strategy.fleet.result().participations.equals(run.participations)
    assert run.learning is not None
    assert losses_of(models, problem) == pytest.approx(run.learning["loss"].to_list(), rel=1e-9)


def test_what_cannot_be_is_told(small: Load) -> None:
    problem = problem_of(12)
    with pytest.raises(RunError, match="two reports of a client may fill one buffer"):
        Live(FedAvg, buffered(small, "server.cooldown_from=selected"))
    with pytest.raises(RunError, match="Flower wants "):
        trained(Live(FedAvg, small("stop={duration: 1h}")), InProcessGrid(client_app(problem), 12), problem)
    silent = Live(FedAvg(fraction_evaluate=0.0), small(*OVERRIDES, "server.selection=oort"))
    with pytest.raises(RunError, match="selection by 'oort' goes by losses, and the client app returns no"):
        trained(silent, InProcessGrid(client_app(problem), 12), problem)
    ended = Live(FedAvg(fraction_evaluate=0.0), small(*OVERRIDES))
    with pytest.raises(RunError, match="the scenario ended after 60 rounds, and Flower asks for round 61"):
        trained(ended, InProcessGrid(client_app(problem), 12), problem, num_rounds=61)
