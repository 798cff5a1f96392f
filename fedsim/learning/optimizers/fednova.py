"""FedNova: changes are normalised by the clients' numbers of local steps before the server takes their mean.

::

    x_{t+1} = x_t + tau_t (1/|S_t|) sum_{i in S_t} Delta_i / K_i,      tau_t = (1/|S_t|) sum_{i in S_t} K_i

A client that takes more local steps pulls no further for that. It is not debiased for participation: with small steps
and a fixed ``effective`` in place of tau_t it rests where FedAvg would with equal K_i, at the optimum of
sum_i w_i f_i, w_i being the pull of client i. The paper's tau_t, the default, goes with the cohort, so that client i
keeps the weight E[tau_t / |S_t|; i in S_t] / K_i: that of FedAvg in cohorts of one client, nearly w_i in large ones.

Source: Wang, Liu, Liang, Joshi and Poor, *Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization*, NeurIPS 2020, arXiv:2007.07481, equation (9) with plain local steps and clients of equal weight.
"""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps, Stateless


@dataclass(frozen=True)
class FedNova(Stateless, PlainSteps[None]):
    """FedNova: changes are normalised by the local steps of clients before their mean."""

    effective: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Effective steps tau of a round. null: the mean K_i of its cohort."""
    local_steps: Ints | None = field(default=None, compare=False)  # given by the scenario's run, see `Optimizer`

    def apply(self, state: None, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[None, Floats]:
        tau = float(cohort.steps.mean()) if self.effective is None else self.effective
        return state, model + tau * (deltas / cohort.steps[:, None]).mean(axis=0)

    def long_run(self, pi: Floats) -> LongRun | None:
        steps = np.ones(len(pi), dtype=np.int64) if self.local_steps is None else self.local_steps
        if self.effective is None and (steps != steps[0]).any():
            return None  # who else is in the cohorts of a client decides, too
        return LongRun(pi / steps, np.ones(len(pi)))
