"""Training without participation noise: in each round the server is given what clients would send on average.

::

    x_{t+1} = x_t + (B_t / B) sum_i w_i clip(Delta_i(x_t; s_i))

w_i is the client's pull in the log, s_i the scale that the optimizer settles at for these pulls, B_t the number of
reports in round t, and B the divisor (B_t itself without privacy; with it, w_i is the share of all reports). Compared
with the run it belongs to, only the randomness of who takes part when is removed: its loss shows the bias of uneven
participation, what clipping adds to that, and what training had no time for.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.failures import LearningError
from fedsim.learning.local_training import LocalWork
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, Foreseeable, Optimizer, PlainSteps
from fedsim.learning.problems.problem import Affine
from fedsim.learning.server_updates import Composed

_CHUNK, _NUMBERS = 4096, 2**17  # clients and numbers at a time, so that their arrays stay in a processor's cache

_State: TypeAlias = dict[float, tuple[Floats, Floats]]


@dataclass(frozen=True)
class Expected(PlainSteps[_State]):
    """A server that takes the mean of changes over all clients of the log instead of a cohort."""

    work: LocalWork  # what a client does in a round
    # clients, weights, scales: who takes part at all; w_i, sum 1; s_i. Shape (M,) each
    clients: Ints
    weights: Floats
    scales: Floats
    # clip, divisor: largest norm of a change, and B, as in `fedsim.learning.private.Private`; None without privacy
    clip: float | None = None
    divisor: int | None = None

    def init(self, _clients: int, _dimension: int) -> _State:
        """Return an empty cache of affine local work by step size."""
        return {}

    def apply(self, state: _State, model: Floats, cohort: Cohort, _deltas: Floats) -> tuple[_State, Floats]:
        """Return the model moved by the expected change, whatever the cohort sent."""
        alpha, change = self.work.step_size(cohort.round), np.zeros_like(model)
        size = max(1, min(_CHUNK, _NUMBERS // len(model)))
        for first in range(0, len(self.clients), size):
            part = slice(first, first + size)
            deltas = self._changes(state, part, model, alpha)
            weights = self.weights[part]
            if self.clip is not None:
                norms = np.sqrt(np.einsum("ij,ij->i", deltas, deltas))
                weights = weights * np.minimum(1.0, self.clip / np.maximum(norms, 1e-300))
            change += weights @ deltas
        share = 1.0 if self.divisor is None else len(cohort.clients) / self.divisor
        return state, model + share * change

    def _changes(self, state: _State, part: slice, model: Floats, alpha: float) -> Floats:
        clients, step_sizes = self.clients[part], alpha * self.scales[part]
        if not isinstance(self.work.problem, Affine):
            return self.work.updates(clients, np.repeat(model[None], len(clients), axis=0), step_sizes)
        if alpha not in state:
            state.clear()  # keep only the latest step size of a schedule
            steps = self.work.steps if self.work.own_steps is None else self.work.own_steps[self.clients]
            pull, centres = self.work.problem.affine(self.clients, alpha * self.scales, steps)
            state[alpha] = pull, pull * centres
        pull, target = state[alpha]
        deltas: Floats = target[part] - pull[part] * model
        return deltas


def can_be_expected(optimizer: type) -> bool:
    """Say whether an optimizer's expected change is known: the mean of changes, with scales that settle."""
    return issubclass(optimizer, MeanChange) and hasattr(optimizer, "long_run")


def expected_optimizer(
    optimizer: Optimizer, work: LocalWork, frequency: Floats, clip: float | None = None, divisor: int | None = None
) -> Optimizer:
    """Return an optimizer that is given the expected change of each round, behind the same server update.

    `frequency`, shape (N,), is each client's pull in the log; a `LearningError` is raised unless the
    optimizer, which is without privacy, `can_be_expected`.
    """
    if isinstance(optimizer, Composed):
        return replace(optimizer, optimizer=expected_optimizer(optimizer.optimizer, work, frequency, clip, divisor))
    limit = optimizer.long_run(frequency) if isinstance(optimizer, Foreseeable) else None
    if limit is None or not isinstance(optimizer, MeanChange):
        raise LearningError(f"it is not known what {type(optimizer).__name__} makes of all clients together")
    seen = np.flatnonzero(limit.weights > 0)
    return Expected(work, seen, limit.weights[seen], limit.scales[seen], clip, divisor)
