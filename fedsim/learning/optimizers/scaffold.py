"""SCAFFOLD: local gradients are corrected by what the client and all clients found in their last local steps.

::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) - c_i + c)
    c_i  <- c_i - c - Delta_i / (K_i alpha)   for i in S_t: the mean of its K_i local gradients, before the correction
    c     = (1/N) sum_i c_i                   over all clients; c_i = 0 before the first participation
    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

It rests where c = 0 and c_i = grad f_i(x), so that the mean gradient of all clients that ever take part is zero,
whatever K, the constant step size and the participation. The price is out-of-date controls, the more so the longer
clients stay away. At K = 1 it is FedVARP.

Source: Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, *SCAFFOLD: Stochastic Controlled Averaging for Federated
Learning*, ICML 2020, arXiv:1910.06378, Algorithm 1 with option II and server step size 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, LongRun


class Controls(Remembered):
    """c_i of each of N clients, and their mean c, shape (d,)."""

    def corrections(self, cohort: Cohort) -> Floats:
        """Return c - c_i of the cohort, shape (B, d)."""
        return self.mean - self.rows.of(cohort.clients)

    def local_gradients(self, cohort: Cohort, deltas: Floats) -> Floats:
        """Return the mean of the K gradients of each client before they were corrected, shape (B, d)."""
        length = (cohort.steps * cohort.step_sizes)[:, None]
        return np.asarray(-deltas / length - self.corrections(cohort))


@dataclass(frozen=True)
class Scaffold(RemembersParticipants):
    """SCAFFOLD: local gradients are corrected by what all clients found last, the controls in its state."""

    footprint: ClassVar[Footprint] = Footprint(server=1, client=1, sent=2)

    def init(self, clients: int, dimension: int) -> Controls:
        return Controls(clients, dimension)

    def prepare(self, state: Controls, cohort: Cohort) -> tuple[Controls, LocalSteps]:
        return state, LocalSteps(corrections=state.corrections(cohort))

    def apply(self, state: Controls, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Controls, Floats]:
        state.keep(cohort.clients, state.local_gradients(cohort, deltas))
        return state, model + deltas.mean(axis=0)

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi, local_steps=1)
