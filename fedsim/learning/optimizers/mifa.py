"""MIFA and FedVARP, whose server remembers what every client did last, however long ago that was.

MIFA steps along the mean of it.

::

    G_i     = Delta_i  for i in S_t;    G_i as it was for the others, 0 before a client first takes part
    x_{t+1} = x_t + (1/N) sum_i G_i

All clients have the same weight in every round, so participation does not bias it; the price is out-of-date directions,
the more so the longer clients stay away. The authors let every client take part once before the first step; here a
client counts for nothing until it has.

Source: Gu, Huang, Zhang and Huang, *Fast Federated Learning in the Presence of Arbitrary Device Unavailability*,
NeurIPS 2021, arXiv:2106.04159, Algorithm 1.

FedVARP corrects each cohort's mean by it::

    v       = ybar_t + (1/|S_t|) sum_{i in S_t} (Delta_i - y_i),      ybar_t = (1/N) sum_i y_i
    x_{t+1} = x_t + v
    y_i     = Delta_i  for i in S_t;    y_i = 0 before a client first takes part

The memory removes the variance from seeing few clients a round. In the long run y_i is what client i would do now, and
v the mean over all clients; before that, and as far as y_i is out of date, the mean over S_t leans towards those who
take part often. Over a buffered log this is CA2FL (Wang et al., ICLR 2024).

Source: Jhunjhunwala, Sharma, Nagarkatti and Joshi, *FedVARP: Tackling the Variance Due to Partial Client Participation
in Federated Learning*, UAI 2022, arXiv:2207.14130, Algorithm 1.
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


@dataclass(frozen=True)
class FedVarp(Mifa):
    """FedVARP, which has no options; its state is that of MIFA."""

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        direction = state.mean + (deltas - state.rows.of(cohort.clients)).mean(axis=0)
        state.keep(cohort.clients, deltas)
        return state, model + direction
