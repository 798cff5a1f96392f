"""FedAU: each client's change is weighted by how long, on average, it stays away.

::

    x_{t+1} = x_t + (1/N) sum_{i in S_t} omega_i Delta_i

omega_i is the mean length of the participation intervals of client i that were complete before round t, 1 before the
first is. An interval runs from the round after a participation (or the start) to the next participation, both included,
and is closed at ``cutoff`` rounds. It is 1 / P(i in S_t) rounds long on average, so every client has weight 1/N in the
long run, except that the cutoff takes weight from rare clients.

Rounds without any report do not count. A client's second report in one version of a buffered server ends an empty
interval, so that the mean length stays the inverse of its rate.

Source: Wang and Ji, *A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging*, ICLR
2024, arXiv:2306.03401, Algorithms 1 and 2.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(slots=True)
class IntervalCounts:
    """The complete intervals of each client: their number and total length, and where the open one began; (N,) each.

    A client is brought up to date only when it takes part, so that a round costs as much as its cohort.
    """

    count: Ints
    length: Ints
    begin: Ints
    rounds: int = 0


@dataclass(frozen=True)
class FedAu(PlainSteps[IntervalCounts]):
    """FedAU: a client's change has the weight of its mean time away. Its state counts these intervals."""

    cutoff: Annotated[int, Field(ge=1)] | None = 50
    """Length, in rounds, at which a participation interval is closed; null: none is."""

    def init(self, clients: int, _dimension: int) -> IntervalCounts:
        count, length, begin = np.zeros((3, clients), dtype=np.int64)
        return IntervalCounts(count, length, begin)

    def apply(
        self, state: IntervalCounts, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[IntervalCounts, Floats]:
        taking_part, times = np.unique(cohort.clients, return_counts=True)
        if self.cutoff is not None:
            overdue = (state.rounds - state.begin[taking_part]) // self.cutoff
            state.count[taking_part] += overdue
            state.length[taking_part] += overdue * self.cutoff
            state.begin[taking_part] += overdue * self.cutoff
        count, length = state.count[cohort.clients], state.length[cohort.clients]
        omega = np.divide(length, count, out=np.ones(len(count)), where=count > 0)
        state.count[taking_part] += times
        state.length[taking_part] += state.rounds + 1 - state.begin[taking_part]
        state.rounds += 1
        state.begin[taking_part] = state.rounds
        return state, model + omega @ deltas / len(state.count)

    def long_run(self, pi: Floats) -> LongRun | None:
        return LongRun.evenly(pi) if self.cutoff is None else None
