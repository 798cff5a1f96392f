"""A server step of any length: x_{t+1} = x_t + eta v_t.

Source: Reddi et al., *Adaptive Federated Optimization*, ICLR 2021, arXiv:2003.00295, Algorithm 1 with plain SGD at the
server.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedsim.common.arrays import Floats


@dataclass(frozen=True)
class Sgd:
    """Server SGD, which has no state."""

    linear: ClassVar[bool] = True

    step_size: Annotated[float, Field(gt=0)] = 1.0  # eta; 1 leaves the optimizer as it is

    def init(self, _dimension: int) -> None:
        """Return None: there is no state."""

    def step(self, state: None, direction: Floats) -> tuple[None, Floats]:
        return state, self.step_size * direction
