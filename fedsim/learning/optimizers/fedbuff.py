"""FedBuff, whose server steps when its buffer is full and discounts stale reports, and Debiased FedBuff.

::

    s(tau)  = (1 + tau)^-a        for tau <= max_staleness, 0 beyond
    x_{t+1} = x_t + (1/Z_t) sum_{i in S_t} s(tau_i) Delta_i,      Z_t = |S_t|  or  sum_{i in S_t} s(tau_i)

S_t are the reports of the t-th buffer; Delta_i is what client i did to the version that it downloaded, tau_i versions
ago. The paper divides by the size of the buffer (``normalise: buffer``), so stale buffers move the model less;
``normalise: weights`` divides by the sum of the weights, so they do not. ``exponent: 0`` is FedAvg.

In the long run client i moves the model with weight pi_i E_i[s]: biased towards clients that report often and soon.
Over a synchronous log every tau is 0, and this is FedAvg to the last bit.

Source: Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba, *Federated Learning with Buffered Asynchronous
Aggregation*, AISTATS 2022, arXiv:2106.06639, Algorithm 1 with a = 1/2 (their experiments); s as in Xie, Koyejo and
Gupta, *Asynchronous Federated Optimization*, arXiv:1903.03934. The server step size is a server update of its own.

Debiased FedBuff weights each report not only by its staleness, but also by how seldom its client is heard::

    e_i     = s(tau_i) / Z_t                                 what FedBuff gives the report
    m_i     = sum of e over the reports of client i so far, this step included;  M = sum_j m_j
    nu_i    = M / (N m_i)
    x_{t+1} = x_t + sum_{i in S_t} e_i nu_i Delta_i

lambda_i = m_i / M is what a server can count while it runs, from the reports alone. Once it has settled, client i has
moved the model over T steps with total weight m_i nu_i = M / N: all clients alike, however fast, available and stale.

Counting *reports*, as Debiased FedAvg does (``count: reports``), undoes only half of the bias: client i keeps the
weight E_i[s], which is less for long sessions. Without a discount (``exponent: 0``) the two are the same. For one local
step and over a synchronous log this is Debiased FedAvg. The first lambda_i are rough; ``clip`` bounds nu_i.

Source: Sun, Zhang, Xu, Joshi, Sharma and Wei, *Debiasing Federated Learning with Correlated Client Participation*, ICLR
2025, arXiv:2410.01209 (lambda_i and nu_i of synchronous rounds).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.debiased_fedavg import ParticipationCounts
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps, Stateless


@dataclass(frozen=True)
class Discounted:
    """An optimizer that discounts reports by their staleness."""

    exponent: Annotated[float, Field(ge=0)] = 0.5
    """a in the discount (1 + staleness)^-a; at 0 stale reports count as much as fresh ones."""
    normalise: Literal["buffer", "weights"] = "buffer"
    """What the sum of a buffer is divided by: `buffer`, the number of reports; `weights`, the sum of their discounts.
    """
    max_staleness: Annotated[int, Field(ge=0)] | None = None
    """Reports that are staler, in versions, have no weight, though they fill the buffer; null: all have."""

    def discounts(self, staleness: Ints) -> tuple[Floats, float]:
        """Return s(tau) of each report, shape (B,), and the number by which their sum is divided."""
        weights = np.asarray((1.0 + staleness) ** -self.exponent, dtype=np.float64)
        if self.max_staleness is not None:
            weights = np.where(staleness <= self.max_staleness, weights, 0.0)
        total = float(weights.sum())
        # If nothing counts, nothing moves, whatever the divisor.
        return weights, total if self.normalise == "weights" and total > 0 else float(len(weights))


@dataclass(frozen=True)
class FedBuff(Stateless, Discounted, PlainSteps[None]):
    """FedBuff: the server steps when its buffer is full, and discounts stale reports."""

    def apply(self, state: None, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[None, Floats]:
        weights, divisor = self.discounts(cohort.staleness)
        return state, model + (weights[:, None] * deltas).sum(axis=0) / divisor

    def long_run(self, pi: Floats) -> LongRun | None:
        return LongRun.by_frequency(pi) if self.exponent == 0 and self.max_staleness is None else None


@dataclass(frozen=True)
class DebiasedFedBuff(Discounted, PlainSteps[ParticipationCounts]):
    """Debiased FedBuff: FedBuff that evens out how often clients report. Its state is m_i and M."""

    count: Literal["discounted", "reports"] = "discounted"
    """What lambda_i counts: `discounted` reports, which removes the discount's bias too, or `reports`."""
    clip: Annotated[float, Field(ge=1)] | None = None
    """Upper bound of nu_i; null: none."""

    def init(self, clients: int, _dimension: int) -> ParticipationCounts:
        return ParticipationCounts(np.zeros(clients))

    def apply(
        self, state: ParticipationCounts, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[ParticipationCounts, Floats]:
        weights, divisor = self.discounts(cohort.staleness)
        counted = weights / divisor if self.count == "discounted" else np.ones(len(weights))
        np.add.at(state.of_client, cohort.clients, counted)
        state.total += float(counted.sum())
        counts = state.of_client[cohort.clients]
        # A client none of whose reports counted has no weight to correct.
        nu = np.divide(state.total, len(state.of_client) * counts, out=np.zeros(len(counts)), where=counts > 0)
        if self.clip is not None:
            nu = np.minimum(nu, self.clip)
        return state, model + ((weights * nu)[:, None] * deltas).sum(axis=0) / divisor

    def long_run(self, pi: Floats) -> LongRun | None:
        even = self.count == "discounted" or self.exponent == 0
        return LongRun.evenly(pi) if even and self.clip is None and self.max_staleness is None else None
