"""Federations in one process: clients that take gradient steps on fedsim's own objectives, in double precision."""

from typing import Any

import numpy as np
import polars as pl
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Strategy

from fedsim.flower import PARTITION, STEP_SCALE, InProcessGrid, tell_partition
from fedsim.learning import build_optimizer, build_problem, replay
from fedsim.learning.problems.problem import Problem
from fedsim.run.run import Result
from fedsim.run.simulate import simulate
from tests.conftest import Load

STEPS, STEP_SIZE = 3, 0.1
OVERRIDES = (
    "population.0.availability={kind: renewal, on: 20m, off: 20m}",
    "population.0.session={train: {kind: exponential, mean: 3m}}",
    "population.0.separation=1",
    "server.over_select=1.6",
    "server.deadline=6m",
    "server.pause=1m",
)
"""So that some of a cohort drop out or come late, and cohorts differ in size."""


def problem_of(clients: int) -> Problem:
    return build_problem("quadratic", {"clusters": 4, "cluster_spread": 2.0}, clients=clients, seed=3)


def client_app(problem: Problem, dtype: type = np.float64) -> ClientApp:
    """Return an app that trains as a client of fedsim does, and echoes the scale of its steps."""
    app = ClientApp()
    app.query(PARTITION)(tell_partition)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = np.array([int(context.node_config["partition-id"])])
        scale = message.content["config"].get(STEP_SCALE, 1.0)
        model = message.content["arrays"]["x"].numpy()[None]
        for _ in range(STEPS):
            model = (model - STEP_SIZE * scale * problem.gradients(client, model)).astype(dtype)
        metrics = MetricRecord({"num-examples": 1, STEP_SCALE: scale})
        content = RecordDict({"arrays": ArrayRecord({"x": Array(model[0])}), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def trained(strategy: Strategy, grid: InProcessGrid, problem: Problem, dtype: type = np.float64, **start: Any) -> Any:
    """Return the model after each round, shape (T + 1, d)."""
    models: list[Any] = []

    def keep(_round: int, arrays: ArrayRecord) -> None:
        models.append(arrays["x"].numpy())

    strategy.start(grid, ArrayRecord({"x": Array(problem.initial().astype(dtype))}), evaluate_fn=keep, **start)
    return np.array(models)


def ran(small: Load, *overrides: str) -> Result:
    """Return a run in which reports are lost."""
    result = simulate(small(*OVERRIDES, *overrides))
    lost = result.participations.filter(pl.col("outcome") != "reported")
    assert 20 < len(lost) < len(result.participations) / 2
    return result


def losses(result: Result, problem: Problem, kind: str, **options: Any) -> list[float]:
    """Return the loss after each round of fedsim's own replay."""
    optimizer = build_optimizer(kind, options, pi=options.pop("pi", None))
    table = replay(
        problem, {"own": optimizer}, result.rounds, result.participations, local_steps=STEPS, step_size=STEP_SIZE
    )
    return table["loss"].to_list()


def losses_of(models: Any, problem: Problem) -> list[float]:
    return [float(problem.evaluate(model)["loss"]) for model in models]
