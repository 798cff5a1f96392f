"""FedAvg: the mean of the clients' changes.

::

    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

If some clients take part more often than others it converges to a point that favours them: for small steps, to a
stationary point of sum_i pi_i f_i, pi_i being the long-run frequency of client i, not of the mean of the f_i.

Source: McMahan, Moore, Ramage, Hampson and Aguera y Arcas, *Communication-Efficient Learning of Deep Networks from
Decentralized Data*, AISTATS 2017, arXiv:1602.05629, Algorithm 1 with full local gradients and clients of equal size.
"Vanilla FedAvg" in Sun et al., ICLR 2025, arXiv:2410.01209.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps, State, Stateless


class MeanChange(Generic[State]):
    """An optimizer whose server moves the model by the mean of the changes."""

    def apply(self, state: State, model: Floats, _cohort: Cohort, deltas: Floats) -> tuple[State, Floats]:
        mean: Floats = np.add.reduce(deltas, axis=0)
        mean /= len(deltas)
        return state, model + mean


@dataclass(frozen=True)
class FedAvg(Stateless, PlainSteps[None], MeanChange[None]):
    """FedAvg, which has no options and no state."""

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.by_frequency(pi)
