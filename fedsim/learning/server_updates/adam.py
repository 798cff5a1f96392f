"""Adam at the server (FedAdam), coordinate by coordinate.

::

    m_t = beta_1 m_{t-1} + (1 - beta_1) v_t                 m_{-1} = 0
    w_t = beta_2 w_{t-1} + (1 - beta_2) v_t^2               w_{-1} = tau^2
    x_{t+1} = x_t + eta m_t / (sqrt(w_t) + tau)

As the authors have it: no correction for the start, for which the initial w makes up. A step is at most about eta in
each coordinate, however long v_t is; where the model comes to rest, cohorts that pull far count for less than they
would, so that Adam may rest elsewhere than the optimizer alone.

References
----------
Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, Algorithm 2.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats

Moments = tuple[Floats, Floats]


@dataclass(frozen=True)
class Adam:
    """Server Adam. Its state is (m, w), each of shape (d,).

    Parameters
    ----------
    step_size
        eta.
    beta_1, beta_2
        Shares of the first and second moment that are kept.
    tau
        What keeps the step finite where nothing moves: larger is less adaptive.
    """

    linear: ClassVar[bool] = False

    step_size: Annotated[float, Field(gt=0)] = 0.01
    beta_1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    tau: Annotated[float, Field(gt=0)] = 1e-3

    def init(self, dimension: int) -> Moments:
        """Return the moments of a server at rest."""
        return np.zeros(dimension), np.full(dimension, self.tau**2)

    def step(self, state: Moments, direction: Floats) -> tuple[Moments, Floats]:
        """Return the moments, and the step."""
        first = self.beta_1 * state[0] + (1.0 - self.beta_1) * direction
        second = self.beta_2 * state[1] + (1.0 - self.beta_2) * direction**2
        return (first, second), self.step_size * first / (np.sqrt(second) + self.tau)
