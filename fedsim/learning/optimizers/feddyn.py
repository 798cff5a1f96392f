"""FedDyn: each client's objective gets a linear and a quadratic term, so that all agree on the optimum of their mean.

::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) - g_i + mu (x^i_{t,k} - x_t))
    g_i    <- g_i - mu Delta_i                                        for i in S_t; 0 before the first participation
    h       = (1/N) sum_i g_i                                         over all clients
    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i - h / mu

It rests where no client moves, Delta_i = 0, so that g_i = grad f_i(x), and h = 0: the mean gradient of all clients that
ever take part is zero, whatever their numbers of local steps, the constant step size and the participation. The price
is out-of-date terms of clients that stay away: a large ``mu`` goes slowly, a small one overshoots.

Source: Acar, Zhao, Matas, Mattina, Whatmough and Saligrama, *Federated Learning Based on Dynamic Regularization*, ICLR
2021, arXiv:2111.04263, Algorithm 1 with gradient steps for the inner minimisation.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, LongRun


@dataclass(frozen=True)
class FedDyn(RemembersParticipants):
    """FedDyn: clients' objectives get terms that make them agree. Its state is g_i of each client, and their mean."""

    footprint: ClassVar[Footprint] = Footprint(server=1, client=1)

    mu: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    """Weight of the quadratic term."""

    def init(self, clients: int, dimension: int) -> Remembered:
        return Remembered(clients, dimension)

    def prepare(self, state: Remembered, cohort: Cohort) -> tuple[Remembered, LocalSteps]:
        return state, LocalSteps(corrections=-state.rows.of(cohort.clients), proximal=self.mu)

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        state.keep(cohort.clients, state.rows.of(cohort.clients) - self.mu * deltas)
        return state, model + deltas.mean(axis=0) - state.mean / self.mu

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi, local_steps=1)
