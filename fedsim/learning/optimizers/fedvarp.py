"""FedVARP: MIFA's memory corrects each cohort's mean.

::

    v       = ybar_t + (1/|S_t|) sum_{i in S_t} (Delta_i - y_i),      ybar_t = (1/N) sum_i y_i
    x_{t+1} = x_t + v
    y_i     = Delta_i  for i in S_t;    y_i = 0 before a client first takes part

The memory removes the variance from seeing few clients a round. In the long run y_i is what client i would do now, and
v the mean over all clients; before that, and as far as y_i is out of date, the mean over S_t leans towards those who
take part often. Over a buffered log this is CA2FL (Wang et al., ICLR 2024).

Source: Jhunjhunwala, Sharma, Nagarkatti and Joshi, *FedVARP: Tackling the Variance Due to Partial Client Participation
in Federated Learning*, UAI 2022, arXiv:2207.14130, Algorithm 1.
"""

from dataclasses import dataclass

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import Remembered
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.optimizers.optimizer import Cohort


@dataclass(frozen=True)
class FedVarp(Mifa):
    """FedVARP, which has no options; its state is that of MIFA."""

    def apply(self, state: Remembered, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[Remembered, Floats]:
        direction = state.mean + (deltas - state.rows.of(cohort.clients)).mean(axis=0)
        state.keep(cohort.clients, deltas)
        return state, model + direction
