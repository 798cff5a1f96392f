"""FedAvg, the mean of the clients' changes, and FedProx, which holds clients near the model that they downloaded.

::

    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

If some clients take part more often than others, or in smaller cohorts, it converges to a point that favours them: for
small steps, to a stationary point of sum_i w_i f_i, w_i = E[1{i in S_t}/|S_t|] being the pull of client i, not of the
mean of the f_i. Where cohorts have one size the pull is the client's long-run share of the reports.

Source: McMahan, Moore, Ramage, Hampson and Aguera y Arcas, *Communication-Efficient Learning of Deep Networks from
Decentralized Data*, AISTATS 2017, arXiv:1602.05629, Algorithm 1 with full local gradients and clients of equal size.
"Vanilla FedAvg" in Sun et al., ICLR 2025, arXiv:2410.01209.

FedProx adds a proximal term to the local steps, which keeps local models from drifting apart over many of them::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) + mu (x^i_{t,k} - x_t))

It does not correct for participation: FedProx is biased as FedAvg is, with mu = 0 to the same point.

Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, *Federated Optimization in Heterogeneous Networks*, MLSys 2020,
arXiv:1812.06127, Algorithm 2, with K gradient steps for the inexact solution.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, LongRun, PlainSteps, State, Stateless


class MeanChange(Generic[State]):
    """An optimizer whose server moves the model by the mean of the changes."""

    footprint: ClassVar[Footprint] = Footprint()

    def apply(self, state: State, model: Floats, _cohort: Cohort, deltas: Floats) -> tuple[State, Floats]:
        mean: Floats = np.add.reduce(deltas, axis=0)
        mean /= len(deltas)
        return state, model + mean


@dataclass(frozen=True)
class FedAvg(Stateless, PlainSteps[None], MeanChange[None]):
    """FedAvg: the server moves by the mean of the clients' changes."""

    ignores_schedule = staticmethod(lambda _options: True)

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.by_frequency(pi)


@dataclass(frozen=True)
class FedProx(Stateless, MeanChange[None]):
    """FedProx: FedAvg whose clients are held near the model that they downloaded."""

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """Weight of the proximal term mu (x - x_t), which is added to gradients; 0 is FedAvg. The step size times mu must
    be well below 2.
    """

    ignores_schedule = staticmethod(lambda _options: True)

    def prepare(self, state: None, _cohort: Cohort) -> tuple[None, LocalSteps]:
        return state, LocalSteps(proximal=self.mu)
