"""FADAS: the mean of a buffer through AMSGrad, with a shorter step for a stale buffer.

::

    Delta_t = (1/|S_t|) sum_{i in S_t} Delta_i
    m_t     = beta_1 m_{t-1} + (1 - beta_1) Delta_t                        m_{-1} = 0
    v_t     = beta_2 v_{t-1} + (1 - beta_2) Delta_t^2                      v_{-1} = 0
    w_t     = max(w_{t-1}, v_t)                                            w_{-1} = 0
    eta_t   = eta  if tau_max <= tau_c,  min(eta, 1 / tau_max)  if tau_max > tau_c
    x_{t+1} = x_t + eta_t m_t / (sqrt(w_t) + epsilon)

coordinate by coordinate, tau_max being the largest staleness in the buffer; all are 0 in synchronous rounds.

It does not correct for participation: w settles, and for small steps FADAS rests where FedAvg does. Shortened steps
take weight from clients that report late. It has a server step of its own, and is not meant to go with a server update.

Source: Wang, Wang, Lu and Chen, *FADAS: Towards Federated Adaptive Asynchronous Optimization*, ICML 2024,
arXiv:2407.18365, with its delay-adaptive step size.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LongRun, PlainSteps

_Moments = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Fadas(PlainSteps[_Moments]):
    """FADAS: AMSGrad over the mean of a buffer, with shorter steps if it is stale. Its state is (m, v, w)."""

    footprint: ClassVar[Footprint] = Footprint(server=3)
    step_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    """Step size of the server."""
    delay_threshold: Annotated[int, Field(ge=0)] | None = 1
    """Largest staleness of a buffer, in versions, above which the step is at most 1 / that staleness; null: never."""
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the first moment that is kept."""
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the second moment that is kept."""
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-8
    """Added to the root of the second moment, so that the step stays finite where nothing has moved yet."""

    def init(self, _clients: int, dimension: int) -> _Moments:
        return np.zeros(dimension), np.zeros(dimension), np.zeros(dimension)

    def apply(self, state: _Moments, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[_Moments, Floats]:
        mean = deltas.mean(axis=0)
        first = self.beta_1 * state[0] + (1.0 - self.beta_1) * mean
        second = self.beta_2 * state[1] + (1.0 - self.beta_2) * mean**2
        largest = np.maximum(state[2], second)
        eta, stalest = self.step_size, int(cohort.staleness.max())
        if self.delay_threshold is not None and stalest > self.delay_threshold:
            eta = min(eta, 1.0 / stalest)
        return (first, second, largest), model + eta * first / (np.sqrt(largest) + self.epsilon)

    def long_run(self, pi: Floats) -> LongRun | None:
        return LongRun.by_frequency(pi) if self.delay_threshold is None else None
