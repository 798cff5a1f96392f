"""FedProx: a proximal term holds clients near the model that they downloaded.

::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) + mu (x^i_{t,k} - x_t))
    x_{t+1}     = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

The term keeps local models from drifting apart over many local steps. It does not correct for participation: FedProx is
biased as FedAvg is, with mu = 0 to the same point.

Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, *Federated Optimization in Heterogeneous Networks*, MLSys 2020,
arXiv:1812.06127, Algorithm 2, with K gradient steps for the inexact solution.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps, Stateless


@dataclass(frozen=True)
class FedProx(Stateless, MeanChange[None]):
    """FedProx, which has no state."""

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1  # weight of the proximal term; 0 is FedAvg

    def prepare(self, state: None, _cohort: Cohort) -> tuple[None, LocalSteps]:
        return state, LocalSteps(proximal=self.mu)
