"""FedAvg in pfl-research, with the cohorts of a fedsim run; it needs no other framework than numpy.

Usage: python train.py WORLD
"""

import sys

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import ModelHyperParams
from pfl.internal.ops import numpy_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics
from pfl.model.base import StatefulModel
from pfl.stats import MappedVectorStatistics

import fedsim
from fedsim.learning import build_problem
from fedsim.pfl import ScheduledUsers


class Softmax(StatefulModel):
    """The weights of softmax regression."""

    def __init__(self, weights):
        self.weights = weights

    def get_parameters(self, _placeholders=None):
        """Return the weights."""
        return MappedVectorStatistics({"weights": self.weights.copy()})

    def set_parameters(self, parameters):
        """Take other weights."""
        self.weights = parameters["weights"].copy()

    def get_model_difference(self, other, clone=False):
        """Return what has changed since."""
        return MappedVectorStatistics({"weights": self.weights - other["weights"]}, weight=1)

    def apply_model_update(self, statistics):
        """Add the mean change."""
        self.weights = self.weights + statistics["weights"]
        return self, Metrics()

    def evaluate(self, _dataset, _name, _params=None):
        """Return nothing: models are evaluated by fedsim's problem."""
        return Metrics()

    def save(self, _path):
        """Not needed here."""

    def load(self, _path):
        """Not needed here."""


class Averaging(FederatedAveraging):
    """FedAvg whose clients take full gradient steps of a fedsim scenario."""

    def __init__(self, learning):
        super().__init__()
        self.learning = learning

    def train_one_user(self, initial, model, user_dataset, central_context):
        """Train one phone on its own images."""
        images, labels = user_dataset.raw_data
        step = self.learning.step_size(central_context.current_central_iteration)
        for _ in range(self.learning.local_steps):
            logits = images @ model.weights
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            slope = images.T @ (odds / odds.sum(axis=1, keepdims=True) - labels) / len(images)
            model.weights = model.weights - step * (slope + self.learning.problem.options["l2"] * model.weights)
        return model.get_model_difference(initial), Metrics()


class Losses(TrainingProcessCallback):
    """The loss after each iteration."""

    def __init__(self, problem):
        self.problem, self.found = problem, []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Evaluate the model."""
        self.found.append(self.problem.evaluate(model.weights.ravel())["loss"])
        return False, Metrics()


def main(world):
    """Train, and compare with fedsim's own replay."""
    set_framework_module(numpy_ops)
    run = fedsim.load(world)
    scenario, clients = run.scenario, len(run.clients)
    choice = scenario.learning.problem
    problem = build_problem(choice.kind, choice.options, clients=clients, seed=scenario.seed)
    sampled, users = [], ScheduledUsers(world)

    def data_of(client):
        sampled.append(client)
        return Dataset(problem.samples_of(client), user_id=str(client))

    dataset, losses = FederatedDataset(data_of, users), Losses(problem)
    Averaging(scenario.learning).run(
        NNAlgorithmParams(users.iterations, 10_000, users.cohort_size, None),
        SimulatedBackend(dataset, dataset),
        Softmax(problem.initial().reshape(-1, problem.classes)),
        ModelHyperParams(),
        callbacks=[losses],
        send_metrics_to_platform=False,
    )
    own = {row["round"]: row["loss"] for row in run.learning.rows(named=True) if row["optimizer"] == "fedavg"}
    apart = max(abs(loss / own[number] - 1) for number, loss in zip(users.rounds, losses.found, strict=True))
    logged = [client for each in users.schedule for client in each.reporting.tolist()]
    same = sum(mine == logs for mine, logs in zip(sampled, logged, strict=True))
    print(f"Users as in the log: {same} of {len(logged)}, in {users.iterations} iterations.")
    print(f"Loss {losses.found[-1]:.4f}; as in fedsim's own replay, to 1e-5: {'yes' if apart < 1e-5 else 'no'}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
