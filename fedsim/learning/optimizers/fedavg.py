"""FedAvg: the mean of the clients' changes.

::

    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i

Where some clients take part more often than others it converges to a point that favours them: for small
steps, to a stationary point of sum_i pi_i f_i, pi_i being the long-run frequency of client i, not of the mean
of the f_i.

References
----------
McMahan, Moore, Ramage, Hampson and Aguera y Arcas, *Communication-Efficient Learning of Deep Networks from
Decentralized Data*, AISTATS 2017, arXiv:1602.05629, Algorithm 1 with full local gradients and clients of
equal size. "Vanilla FedAvg" in Sun et al., ICLR 2025, arXiv:2410.01209.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps, State


class MeanChange(Generic[State]):
    """The step that FedAvg's server takes, and that of others which differ from it in the local steps alone."""

    def apply(self, state: State, model: Floats, _cohort: Cohort, deltas: Floats) -> tuple[State, Floats]:
        """Return the model moved by the mean of the changes."""
        mean: Floats = np.add.reduce(deltas, axis=0)
        mean /= len(deltas)
        return state, model + mean


@dataclass(frozen=True)
class FedAvg(PlainSteps[None], MeanChange[None]):
    """FedAvg. It has no options, and remembers nothing."""

    def init(self, _clients: int, _dimension: int) -> None:
        """Return None."""

    def long_run(self, pi: Floats) -> LongRun:
        """Return pi itself: it is biased towards those who take part often."""
        return LongRun(pi, np.ones(len(pi)))
