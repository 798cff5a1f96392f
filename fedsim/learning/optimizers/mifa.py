"""MIFA, FedVARP and AREA, which remember what every client did last, however long ago that was.

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

AREA's model is the mean, over all clients, of the last local model that each of them sent::

    y_i     = x_{t - tau_i} + Delta_i  for i in S_t;    y_i as it was for the others, x_0 before its first
    x_{t+1} = x_t + (1/N) sum_{i in S_t} (y_i - what it was before) = (1/N) sum_i y_i

A client remembers what it sent last, and sends the difference, so the server remembers nothing but its model; what one
round took from a client is taken back in a later one, which privacy counts as released again. All clients have the same
weight, however often they take part. A client that never takes part counts with x_0, which leaves a bias.

Source: Iakovidou and Kim, *Asynchronous Federated Stochastic Optimization for Heterogeneous Objectives Under Arbitrary
Delays*, arXiv:2405.10123: AsynchRonous Exact Averaging.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LongRun, PlainSteps


@dataclass(frozen=True)
class Mifa(RemembersParticipants, PlainSteps[Remembered]):
    """MIFA: the server moves by the mean of what each client did last, which is its state."""

    def init(self, clients: int, dimension: int) -> Remembered:
        return Remembered(clients, dimension)

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        state.keep(cohort.clients, deltas)
        return state, model + state.mean

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi)


@dataclass(frozen=True)
class FedVarp(Mifa):
    """FedVARP: the cohort's mean change is corrected by what each client did last, which is its state."""

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        direction = state.mean + (deltas - state.rows.of(cohort.clients)).mean(axis=0)
        state.keep(cohort.clients, deltas)
        return state, model + direction


class LastModels(Remembered):
    """y_i - x_0 of each client, and x_0, empty before the first step."""

    def __init__(self, clients: int, dimension: int) -> None:
        super().__init__(clients, dimension)
        self.initial: Floats = np.empty(0)


@dataclass(frozen=True)
class Area(PlainSteps[LastModels], RemembersParticipants):
    """AREA: the model is the mean of the models that clients sent last, which are its state."""

    footprint: ClassVar[Footprint] = Footprint(client=1)

    def init(self, clients: int, dimension: int) -> LastModels:
        return LastModels(clients, dimension)

    def apply(self, state: LastModels, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[LastModels, Floats]:
        if not len(state.initial):
            state.initial = model.copy()
        ends = cohort.downloaded + deltas
        state.keep(cohort.clients, ends - state.initial)
        return state, state.initial + state.mean

    def long_run(self, pi: Floats) -> LongRun | None:
        # Clients that never take part hold the model at x_0.
        return LongRun(np.full(len(pi), 1 / len(pi)), np.ones(len(pi))) if (pi > 0).all() else None
