"""Adam at the server (FedAdam), coordinate by coordinate.

::

    m_t = beta_1 m_{t-1} + (1 - beta_1) v_t                 m_{-1} = 0
    w_t = beta_2 w_{t-1} + (1 - beta_2) v_t^2               w_{-1} = tau^2
    x_{t+1} = x_t + eta m_t / (sqrt(w_t) + tau)

As in the source there is no correction for the start, for which the initial w makes up. A step is at most about eta in
each coordinate, however long v_t is, so long changes count for less, and Adam may rest elsewhere than the optimizer
alone.

Source: Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, Algorithm 2.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats

_Moments = tuple[Floats, Floats]


@dataclass(frozen=True)
class Adam:
    """Server Adam. Its state is (m, w), each of shape (d,)."""

    linear: ClassVar[bool] = False

    step_size: Annotated[float, Field(gt=0)] = 0.01  # eta
    # beta_1, beta_2: shares of the first and second moment that are kept
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    tau: Annotated[float, Field(gt=0)] = 1e-3  # keeps the step finite where nothing moves; larger is less adaptive

    def init(self, dimension: int) -> _Moments:
        return np.zeros(dimension), np.full(dimension, self.tau**2)

    def step(self, state: _Moments, direction: Floats) -> tuple[_Moments, Floats]:
        first = self.beta_1 * state[0] + (1.0 - self.beta_1) * direction
        second = self.beta_2 * state[1] + (1.0 - self.beta_2) * direction**2
        return (first, second), self.step_size * first / (np.sqrt(second) + self.tau)
