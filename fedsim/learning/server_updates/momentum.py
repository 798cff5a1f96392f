"""Heavy-ball momentum at the server: m_t = beta m_{t-1} + v_t,  x_{t+1} = x_t + eta m_t,  m_{-1} = 0.

A constant direction is followed with eta / (1 - beta) of its length in the long run.

Source: Hsu, Qi and Brown, *Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification*, 2019, arXiv:1909.06335 (FedAvgM).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats


@dataclass(frozen=True)
class Momentum:
    """Server momentum. Its state is m, shape (d,)."""

    linear: ClassVar[bool] = True

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9  # share of the last step that is kept
    step_size: Annotated[float, Field(gt=0)] = 1.0  # eta

    def init(self, dimension: int) -> Floats:
        return np.zeros(dimension)

    def step(self, velocity: Floats, direction: Floats) -> tuple[Floats, Floats]:
        velocity = self.beta * velocity + direction
        return velocity, self.step_size * velocity
