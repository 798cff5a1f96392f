"""MIFA: the server steps along the mean of what every client did last, however long ago that was.

::

    G_i     = Delta_i  for i in S_t;    G_i as it was for the others, 0 before a client first takes part
    x_{t+1} = x_t + (1/N) sum_i G_i

All clients have the same weight in every round, so participation does not bias it; the price is out-of-date directions,
the more so the longer clients stay away. The authors let every client take part once before the first step; here a
client counts for nothing until it has.

Source: Gu, Huang, Zhang and Huang, *Fast Federated Learning in the Presence of Arbitrary Device Unavailability*,
NeurIPS 2021, arXiv:2106.04159, Algorithm 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(frozen=True)
class Mifa(PlainSteps[Remembered], RemembersParticipants):
    """MIFA, which has no options; its state is the last change of each client."""

    reuses_updates: ClassVar[bool] = True

    def init(self, clients: int, dimension: int) -> Remembered:
        return Remembered.nothing(clients, dimension)

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        state.keep(cohort.clients, deltas)
        return state, model + state.mean

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi)
