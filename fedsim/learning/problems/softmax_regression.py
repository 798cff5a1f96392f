"""Softmax (multinomial logistic) regression on labelled samples that are unlike at every client.

::

    f_i(W) = (1/n) sum_j [ log sum_c exp(z_jc) - z_{j, y_j} ] + (l2 / 2) |W|^2,    z_j = W^T (a_j, 1)

with a column of W for each class and the bias in its last row. Convex, so that every run that settles has something
definite to settle at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import logsumexp

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.data.choice import Data, Digits, DirichletPartition, Partition, federated, missing_extras
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Gradients
from fedsim.learning.problems.repeated import once


@dataclass(eq=False)
class SoftmaxRegression:
    """Softmax regression; its parameters are W row by row, shape ((features + 1) x classes,).

    Parameters
    ----------
    clients
        N.
    seed
        The scenario's seed.
    folder
        The scenario's, to which paths are relative.
    data
        ``digits``; ``{kind: mnist, path: ...}``; ``{kind: npz, path: ...}``.
    partition
        ``iid``; ``{kind: dirichlet, concentration: 0.3}``; ``{kind: shards, per_client: 2, shuffled: true}``.
    l2
        Strength of the regularisation.
    data_seed
        Draws test samples and partition; the scenario's seed where it is None.

    Raises
    ------
    LearningError
        When data cannot be read or shared, or have no labels.
    """

    clients: int
    seed: int = field(repr=False)
    folder: Path = field(default=Path(), repr=False)
    data: Data = field(default_factory=Digits)
    partition: Partition = field(default_factory=DirichletPartition)
    l2: Annotated[float, Field(ge=0)] = 1e-3
    data_seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None

    check_options = staticmethod(missing_extras)

    def __post_init__(self) -> None:
        seed = self.seed if self.data_seed is None else self.data_seed
        owned = federated(self.data, self.partition, self.clients, seed, self.folder)
        samples = owned.samples
        if not samples.labelled:
            raise LearningError("softmax regression needs labels: one whole number from 0 on for each sample")
        self.classes = samples.classes
        self._members = owned.members
        self._inputs = _with_one(samples.inputs)
        self._targets = np.eye(self.classes)[samples.targets.astype(np.int64)]
        self._test_inputs, self._test_labels = _with_one(samples.test_inputs), samples.test_targets

    @property
    def dimension(self) -> int:
        """Number of entries of W."""
        return int(self._inputs.shape[1]) * self.classes

    @property
    def samples(self) -> int:
        """n, the samples of each client."""
        return int(self._members.shape[1])

    def samples_of(self, client: int) -> tuple[Floats, Floats]:
        """Return what a client has, for whoever trains elsewhere: (a_j, 1) and the unit vectors of the labels y_j."""
        own = self._members[client]
        return self._inputs[own], self._targets[own]

    def initial(self) -> Floats:
        """Return W = 0: all classes are alike."""
        return np.zeros(self.dimension)

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        """Return the gradients of `clients`, shape (M,), at `models`, shape (M, d)."""
        return self.select(clients)(models)

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        """Return the gradients of these clients, over these samples, as a function of their models."""
        clients, samples, cohorts = once(clients, samples)
        own = self._members[clients] if samples is None else self._members[clients[:, None], samples]
        inputs, targets = self._inputs.take(own, axis=0), self._targets.take(own, axis=0)
        transposed = _mean_of(inputs)

        def gradients(models: Floats) -> Floats:
            weights = models.reshape(cohorts, len(models) // cohorts, -1, self.classes)
            misses = _probabilities(inputs @ weights)
            misses -= targets
            slopes = transposed @ misses
            slopes += self.l2 * weights
            flat: Floats = slopes.reshape(models.shape)
            return flat

        return gradients

    def descend(
        self, clients: Ints, models: Floats, step_sizes: Floats, steps: int, minibatches: Ints | None = None
    ) -> Floats:
        """Return what local steps add to the models, shape (M, d); see `Descending`."""
        clients, minibatches, cohorts = once(clients, minibatches)
        own = (
            self._members.take(clients, axis=0) if minibatches is None else self._members[clients[:, None], minibatches]
        )
        local = models.copy()
        weights = local.reshape(cohorts, len(clients), -1, self.classes)
        lengths = step_sizes.repeat(self.dimension).reshape(weights.shape)
        slopes, shrinkage = np.empty(weights.shape), np.empty(weights.shape)
        misses = np.empty((cohorts, len(clients), own.shape[-1], self.classes))
        for step in range(steps):
            if step == 0 or minibatches is not None:
                rows = own if minibatches is None else own[step]
                inputs = self._inputs.take(rows, axis=0)
                targets = np.concatenate([self._targets.take(rows, axis=0)] * cohorts).reshape(misses.shape)
                transposed = _mean_of(inputs)
            np.subtract(_probabilities(np.matmul(inputs, weights, misses)), targets, misses)
            np.matmul(transposed, misses, slopes)
            np.add(slopes, np.multiply(weights, self.l2, shrinkage), slopes)
            np.multiply(slopes, lengths, slopes)
            np.subtract(weights, slopes, weights)
        local -= models
        return local

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        """Return ``loss`` and ``grad_norm`` of F, and ``accuracy`` on the test samples."""
        loss, slope = self._whole(model)
        guesses = (self._test_inputs @ model.reshape(-1, self.classes)).argmax(axis=1)
        return {
            "loss": loss,
            "grad_norm": float(np.linalg.norm(slope)),
            "accuracy": float((guesses == self._test_labels).mean()),
        }

    def solve(self) -> Floats:
        """Return the W at which F is least, to a gradient norm of about 1e-8: Newton's method.

        Raises
        ------
        LearningError
            Without regularisation: then there may be none.
        """
        if self.l2 == 0.0:
            raise LearningError("softmax regression has an optimum for certain only with l2 above 0")
        found = minimize(
            self._whole, self.initial(), jac=True, hessp=self._curved, method="trust-ncg", options={"gtol": 1e-8}
        )
        optimum: Floats = found.x
        return optimum

    def _whole(self, model: Floats) -> tuple[float, Floats]:
        """Return F and its gradient."""
        weights = model.reshape(-1, self.classes)
        chosen = self._members.ravel()
        inputs, targets = self._inputs[chosen], self._targets[chosen]
        logits = inputs @ weights
        likelihood = (logits * targets).sum(axis=1) - logsumexp(logits, axis=1)
        slope = inputs.T @ (_probabilities(logits) - targets) / len(chosen) + self.l2 * weights
        return float(-likelihood.mean() + self.l2 / 2 * (model @ model)), slope.ravel()

    def _curved(self, model: Floats, along: Floats) -> Floats:
        """Return the second derivative of F times a vector."""
        inputs = self._inputs[self._members.ravel()]
        shares = _probabilities(inputs @ model.reshape(-1, self.classes))
        turned = inputs @ along.reshape(-1, self.classes)
        turned -= (shares * turned).sum(axis=1, keepdims=True)
        curved: Floats = (inputs.T @ (shares * turned)).ravel() / len(inputs) + self.l2 * along
        return curved


def _with_one(inputs: Floats) -> Floats:
    flat = inputs.reshape(len(inputs), -1)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def _mean_of(inputs: Floats) -> Floats:
    """Return what takes the means over samples of inputs times something: their transpose over their number."""
    means: Floats = inputs.swapaxes(-1, -2) / inputs.shape[-2]
    return means


def _probabilities(logits: Floats) -> Floats:
    """Return the probabilities of the classes, in the place of the logits."""
    # Across a few columns the largest is found at once for all rows; along each row it takes a call for each.
    rows = logits.reshape(-1, logits.shape[-1])
    largest = np.maximum.reduce(rows.T.copy(), axis=0)
    np.subtract(rows, largest[:, None], rows)
    np.exp(rows, rows)
    np.divide(rows, np.add.reduce(rows, axis=1, keepdims=True), rows)
    return rows.reshape(logits.shape)
