"""The server: both strategies over the same cohorts, and a table of what came of them, beside fedsim's own replay."""

import logging
from functools import partial

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from scipy.optimize import minimize

from fedsim.flower import DebiasedFedAvg, Replay, read_schedule
from night_app.world import problem_of, run_of

app = ServerApp()
STRATEGIES = {
    "fedavg": lambda: FedAvg(fraction_evaluate=0.0),
    "debiased_fedavg": lambda: DebiasedFedAvg(scale="steps", fraction_evaluate=0.0),
}


@app.main()
def main(grid, context):
    """Train by one strategy after the other, and compare."""
    world = context.run_config["world"]
    run, problem, schedule = run_of(world), problem_of(world), read_schedule(world)
    expected = {name: own["loss"].to_list() for (name,), own in run.learning.group_by("optimizer")}
    logging.getLogger("flwr").setLevel(logging.WARNING)  # which says eight lines a round
    lines, same, apart = [], 0, 0.0
    lowest = optimum(problem)
    for name, make in STRATEGIES.items():
        replay, models = Replay(make(), schedule), []
        replay.start(grid, initial(problem), evaluate_fn=partial(keep, models, name))
        losses = [problem.evaluate(model)["loss"] for model in models]
        same += sum(
            sent == each.clients.tolist() and received == each.reporting.tolist()
            for sent, received, each in zip(replay.sent, replay.received, schedule, strict=True)
        )
        apart = max(apart, np.abs(np.array(losses) / expected[name] - 1).max())
        late = problem.evaluate(np.mean(models[len(models) // 2 :], axis=0))
        lines.append(
            f"{name:<18}{losses[-1]:>12.4f}{late['loss']:>14.4f}{late['loss'] - lowest:>12.4f}{late['accuracy']:>12.1%}"
        )
    print()
    print(f"{'':<18}{'loss, last':>12}{'of the mean':>14}{'above the':>12}{'accuracy,':>12}")
    print(f"{'':<18}{'model':>12}{'model':>14}{'optimum':>12}{'mean model':>12}")
    print("\n".join(lines))
    print()
    print(f"Cohorts as in the log: {same} of {len(STRATEGIES) * len(schedule)} rounds.")
    print(f"Losses as in fedsim's own replay, to 1e-5: {'yes' if apart < 1e-5 else 'no'}.")


def initial(problem):
    """Return the first model."""
    start = problem.initial().reshape(-1, problem.classes).astype(np.float32)
    return ArrayRecord({"weights": Array(start)})


def keep(models, name, number, arrays):
    """Keep the model of a round, and say now and then how far we are."""
    models.append(arrays["weights"].numpy().astype(np.float64).ravel())
    if number % 50 == 0:
        print(f"{name}: {number} rounds", flush=True)


def optimum(problem):
    """Return the least loss that there is, all phones together."""
    everyone = np.arange(problem.clients)

    def slope(model):
        return problem.gradients(everyone, np.tile(model, (problem.clients, 1))).mean(axis=0)

    found = minimize(lambda model: problem.evaluate(model)["loss"], problem.initial(), jac=slope, method="L-BFGS-B")
    return found.fun
