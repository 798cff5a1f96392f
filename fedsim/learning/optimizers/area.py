"""AREA: the server's model is the mean, over all clients, of the last local model that each of them sent.

::

    y_i     = x_{t - tau_i} + Delta_i  for i in S_t;    y_i as it was for the others, x_0 before its first
    x_{t+1} = x_t + (1/N) sum_{i in S_t} (y_i - what it was before) = (1/N) sum_i y_i

A client remembers what it sent last, and sends the difference, so the server remembers nothing but its model; what one
round took from a client is taken back in a later one, which privacy counts as released again. All clients have the same
weight, however often they take part. A client that never takes part counts with x_0, which leaves a bias.

Source: Iakovidou and Kim, *Asynchronous Federated Stochastic Optimization for Heterogeneous Objectives Under Arbitrary
Delays*, arXiv:2405.10123: AsynchRonous Exact Averaging.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(slots=True)
class LastModels:
    """y_i - x_0 of each client, and x_0, empty before the first step."""

    sent: Remembered
    initial: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Area(PlainSteps[LastModels], RemembersParticipants):
    """AREA, which has no options; its state is what each client sent last."""

    reuses_updates: ClassVar[bool] = True

    def init(self, clients: int, dimension: int) -> LastModels:
        return LastModels(Remembered.nothing(clients, dimension))

    def apply(self, state: LastModels, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[LastModels, Floats]:
        if not len(state.initial):
            state.initial = model.copy()
        ends = cohort.downloaded + deltas
        state.sent.keep(cohort.clients, ends - state.initial)
        return state, state.initial + state.sent.mean

    def long_run(self, pi: Floats) -> LongRun | None:
        # Clients that never take part hold the model at x_0.
        return LongRun(np.full(len(pi), 1 / len(pi)), np.ones(len(pi))) if (pi > 0).all() else None
