"""Softmax (multinomial logistic) regression on labelled samples that differ between clients.

::

    f_i(W) = (1/n) sum_j [ log sum_c exp(z_jc) - z_{j, y_j} ] + (l2 / 2) |W|^2,    z_j = W^T (a_j, 1)

with a column of W for each class and the bias in its last row. The objective is convex.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.optimize import minimize
from scipy.special import logsumexp

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.data.choice import ChosenData, missing_extras
from fedsim.learning.failures import LearningError
from fedsim.learning.problems.problem import Gradients, repeated_cohort


@dataclass(eq=False)
class SoftmaxRegression(ChosenData):
    """Softmax regression on data with labels; its parameters are W row by row, shape ((features + 1) x classes,)."""

    l2: Annotated[float, Field(ge=0)] = 1e-3
    """Strength of the regularisation (l2 / 2) |x|^2."""

    check_options = staticmethod(missing_extras)

    def __post_init__(self) -> None:
        owned = self.load()
        samples = owned.samples
        if not samples.labelled:
            raise LearningError("softmax regression needs labels: one whole number from 0 on for each sample")
        self.classes = samples.classes
        self._members = owned.members
        if self.counts is not None:
            real = np.arange(self.samples) < self.counts[:, None]
            self._weights = real / self.counts[:, None]  # of samples in f_i, zero for what fills up
            factors = np.ones((self.clients, 1)) if self.factors is None else self.factors[:, None]
            self._shares = (self._weights * factors / self.clients).ravel()  # in F
        self._inputs = _with_one(samples.inputs)
        self._targets = np.zeros((len(samples.targets), self.classes))
        self._targets[np.arange(len(samples.targets)), samples.targets.astype(np.int64)] = 1.0
        self._test_inputs, self._test_labels = _with_one(samples.test_inputs), samples.test_targets

    @property
    def dimension(self) -> int:
        return int(self._inputs.shape[1]) * self.classes

    def samples_of(self, client: int) -> tuple[Floats, Floats]:
        """Return a client's samples for training elsewhere: (a_j, 1) and the unit vectors of the labels y_j."""
        rows = self._members[client][: None if self.counts is None else self.counts[client]]
        return self._inputs[rows], self._targets[rows]

    def initial(self) -> Floats:
        return np.zeros(self.dimension)

    def gradients(self, clients: Ints, models: Floats) -> Floats:
        return self.select(clients)(models)

    def select(self, clients: Ints, samples: Ints | None = None) -> Gradients:
        clients, samples, cohorts = repeated_cohort(clients, samples)
        rows = self._members[clients] if samples is None else self._members[clients[:, None], samples]
        inputs, targets = self._inputs.take(rows, axis=0), self._targets.take(rows, axis=0)
        # Times values of the samples, the transposed inputs over their number give means.
        transposed, spare = inputs.swapaxes(-1, -2) / inputs.shape[-2], np.empty((cohorts, *targets.shape))
        if samples is None and self.counts is not None:
            transposed = inputs.swapaxes(-1, -2) * self._weights[clients][:, None, :]
        factors = None if self.factors is None else self.factors[clients][:, None, None]

        def gradients(models: Floats) -> Floats:
            weights = models.reshape(cohorts, len(models) // cohorts, -1, self.classes)
            misses = _probabilities(np.matmul(inputs, weights, spare))
            misses -= targets
            slopes = transposed @ misses
            slopes += self.l2 * weights
            if factors is not None:
                slopes *= factors
            flat: Floats = slopes.reshape(models.shape)
            return flat

        return gradients

    def losses(self, clients: Ints, models: Floats) -> Floats:
        rows = self._members[clients]
        logits = self._inputs[rows] @ models.reshape(len(models), -1, self.classes)
        return np.asarray(logsumexp(logits, axis=-1) - (logits * self._targets[rows]).sum(axis=-1))

    def evaluate(self, model: Floats) -> Mapping[str, float]:
        loss, slope = self._whole(model)
        guesses = (self._test_inputs @ model.reshape(-1, self.classes)).argmax(axis=1)
        return {
            "loss": loss,
            "grad_norm": float(np.linalg.norm(slope)),
            "accuracy": float((guesses == self._test_labels).mean()),
        }

    def solve(self) -> Floats:
        """Return the optimum, to a gradient norm of about 1e-8, by Newton's method; it may not exist without `l2`."""
        if self.l2 == 0.0:
            raise LearningError("softmax regression has an optimum for certain only with l2 above 0")
        minimum = minimize(
            self._whole, self.initial(), jac=True, hessp=self._curved, method="trust-ncg", options={"gtol": 1e-8}
        )
        return np.asarray(minimum.x)

    def _whole(self, model: Floats) -> tuple[float, Floats]:
        """Return F and its gradient."""
        weights = model.reshape(-1, self.classes)
        chosen = self._members.ravel()
        inputs, targets = self._inputs[chosen], self._targets[chosen]
        logits = inputs @ weights
        likelihood = (logits * targets).sum(axis=1) - logsumexp(logits, axis=1)
        slope = self._mean(inputs, _probabilities(logits) - targets) + self.l2 * weights
        mean = likelihood.mean() if self.counts is None else likelihood @ self._shares
        return float(-mean + self.l2 / 2 * (model @ model)), slope.ravel()

    def _mean(self, inputs: Floats, values: Floats) -> Floats:
        """Return the mean over the clients' samples of inputs times values."""
        if self.counts is None:
            return np.asarray(inputs.T @ values / len(inputs))
        return np.asarray(inputs.T @ (values * self._shares[:, None]))

    def by_client(self, model: Floats) -> Mapping[str, Floats]:
        logits = self._inputs[self._members] @ model.reshape(-1, self.classes)
        targets = self._targets[self._members]
        losses = logsumexp(logits, axis=2) - (logits * targets).sum(axis=2)
        right = logits.argmax(axis=2) == targets.argmax(axis=2)
        weights = np.full(losses.shape, 1 / self.samples) if self.counts is None else self._weights
        regular = self.l2 / 2 * (model @ model)
        return {"loss": (losses * weights).sum(axis=1) + regular, "accuracy": (right * weights).sum(axis=1)}

    def _curved(self, model: Floats, along: Floats) -> Floats:
        """Return the second derivative of F times a vector."""
        inputs = self._inputs[self._members.ravel()]
        shares = _probabilities(inputs @ model.reshape(-1, self.classes))
        turned = inputs @ along.reshape(-1, self.classes)
        turned -= (shares * turned).sum(axis=1, keepdims=True)
        return np.asarray(self._mean(inputs, shares * turned).ravel() + self.l2 * along)


def _with_one(inputs: Floats) -> Floats:
    flat = inputs.reshape(len(inputs), -1)
    return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)


def _probabilities(logits: Floats) -> Floats:
    """Return the probabilities of the classes, in the place of the logits."""
    # Across a few columns the largest is found at once for all rows; along each row it takes a call for each.
    rows = logits.reshape(-1, logits.shape[-1])
    largest = np.maximum.reduce(rows.T.copy(), axis=0)
    np.subtract(rows, largest[:, None], rows)
    np.exp(rows, rows)
    np.divide(rows, np.add.reduce(rows, axis=1, keepdims=True), rows)
    return rows.reshape(logits.shape)
