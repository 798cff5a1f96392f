"""Debiased FedBuff: each report is weighted not only by its staleness, but also by how seldom its client is heard.

::

    e_i     = s(tau_i) / Z_t                                 what FedBuff gives the report, see `fedbuff`
    m_i     = sum of e over the reports of client i so far, this step included;  M = sum_j m_j
    nu_i    = M / (N m_i)
    x_{t+1} = x_t + sum_{i in S_t} e_i nu_i Delta_i

lambda_i = m_i / M is what a server can count while it runs, from the reports alone. Once it has settled, client i has
moved the model over T steps with total weight m_i nu_i = M / N: all clients alike, however fast, available and stale.

Counting *reports*, as Debiased FedAvg does (``count: reports``), undoes only half of the bias: client i keeps the
weight E_i[s], which is less for long sessions. Without a discount (``exponent: 0``) the two are the same. For one local
step and over a synchronous log this is Debiased FedAvg. The first lambda_i are rough; ``clip`` bounds nu_i.

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209 (lambda_i and nu_i of synchronous rounds). FedBuff: see `fedbuff`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.debiased_fedavg import ParticipationCounts
from fedsim.learning.optimizers.fedbuff import Discounted
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(frozen=True)
class DebiasedFedBuff(Discounted, PlainSteps[ParticipationCounts]):
    """Debiased FedBuff. Its state is m_i and M; further options as in `Discounted`."""

    # what m_i counts: ``discounted`` reports, which removes the bias of the discount too, or ``reports``
    count: Literal["discounted", "reports"] = "discounted"
    clip: Annotated[float, Field(ge=1)] | None = None  # largest nu_i; None for no bound

    def init(self, clients: int, _dimension: int) -> ParticipationCounts:
        return ParticipationCounts(np.zeros(clients))

    def apply(
        self, state: ParticipationCounts, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[ParticipationCounts, Floats]:
        weights, divisor = self.discounts(cohort.staleness)
        counted = weights / divisor if self.count == "discounted" else np.ones(len(weights))
        np.add.at(state.of_client, cohort.clients, counted)
        state.total += float(counted.sum())
        own = state.of_client[cohort.clients]
        # A client none of whose reports counted has no weight to correct.
        nu = np.divide(state.total, len(state.of_client) * own, out=np.zeros(len(own)), where=own > 0)
        if self.clip is not None:
            nu = np.minimum(nu, self.clip)
        return state, model + ((weights * nu)[:, None] * deltas).sum(axis=0) / divisor

    def long_run(self, pi: Floats) -> LongRun | None:
        even = self.count == "discounted" or self.exponent == 0
        return LongRun.evenly(pi) if even and self.clip is None and self.max_staleness is None else None
