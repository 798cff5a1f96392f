"""FedBuff: the server steps when its buffer is full, and trusts a report the less the staler it is.

::

    s(tau)  = (1 + tau)^-a        for tau <= max_staleness, 0 beyond
    x_{t+1} = x_t + (1/Z_t) sum_{i in S_t} s(tau_i) Delta_i,      Z_t = |S_t|  or  sum_{i in S_t} s(tau_i)

S_t are the reports of the t-th buffer; Delta_i is what client i did to the version that it downloaded, tau_i versions
ago. The paper divides by the size of the buffer (``normalise: buffer``), so that stale buffers move the model less;
``normalise: weights`` divides by the sum of the weights, so that they do not. ``exponent: 0`` is FedAvg over the same
reports; with ``max_staleness: 0`` beside it, FedAvg that drops whatever is stale.

In the long run client i pulls with weight pi_i E_i[s]: FedAvg's bias towards those who report often, and a second one
towards those who report soon. Over a synchronous log every tau is 0, and this is FedAvg to the last bit.

References
----------
Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba, *Federated Learning with Buffered Asynchronous Aggregation*,
AISTATS 2022, arXiv:2106.06639, Algorithm 1 with a = 1/2 (their experiments); s as in Xie, Koyejo and Gupta,
*Asynchronous Federated Optimization*, arXiv:1903.03934. The server step size is a server update of its own.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(frozen=True)
class FedBuff(PlainSteps[None]):
    """FedBuff. It remembers nothing.

    Parameters
    ----------
    exponent
        a >= 0; at 0 stale reports count as much as fresh ones.
    normalise
        By what the sum is divided: ``buffer``, the number of reports, or ``weights``, the sum of their s.
    max_staleness
        Reports that are staler count for nothing; they have still filled the buffer. All count where it is None.
    """

    exponent: Annotated[float, Field(ge=0)] = 0.5
    normalise: Literal["buffer", "weights"] = "buffer"
    max_staleness: Annotated[int, Field(ge=0)] | None = None

    def init(self, _clients: int, _dimension: int) -> None:
        """Return None."""

    def apply(self, state: None, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[None, Floats]:
        """Return the model moved by the discounted changes."""
        weights, divisor = discounts(self, cohort.staleness)
        return state, model + (weights[:, None] * deltas).sum(axis=0) / divisor

    def long_run(self, pi: Floats) -> LongRun | None:
        """Return pi, where every report counts alike; otherwise more than the frequencies would have to be known."""
        plain = self.exponent == 0 and self.max_staleness is None
        return LongRun(pi, np.ones(len(pi))) if plain else None


def discounts(rule: FedBuff, staleness: Ints) -> tuple[Floats, float]:
    """Return s(tau) of each report, shape (B,), and the number by which their sum is divided."""
    weights = np.asarray((1.0 + staleness) ** -rule.exponent, dtype=np.float64)
    if rule.max_staleness is not None:
        weights = np.where(staleness <= rule.max_staleness, weights, 0.0)
    total = float(weights.sum())
    # Where nothing counts, nothing moves, whatever the divisor.
    return weights, total if rule.normalise == "weights" and total > 0 else float(len(weights))
