"""FOCUS: clients pull the model and push how their gradient has changed; the server follows the sum of all gradients.

::

    for i in S_t:   z = x_t,  y_i = 0;  K times:    z   <- z - alpha y_i            (not the first time: y_i is 0)
                                                    y_i <- y_i + grad f_i(z) - g_i
                                                    g_i <- grad f_i(z)
    y_{t+1} = y_t + sum_{i in S_t} y_i
    x_{t+1} = x_t - alpha y_{t+1}

g_i is the last gradient of client i, 0 before its first, so the server's y is always sum_i g_i (gradient tracking). It
rests where y = 0 and no gradient changes: with full local gradients at the optimum of all who take part, with a
constant step size, whatever K and the participation. At K = 1 and a constant step size it is MIFA with a server step
of N.

The step follows the *sum* of gradients, as in the source: it is N times as long as one along their mean. A server
update `sgd` with a step size of 1/N makes it the mean, and leaves the local steps as they are. If step sizes differ in
a cohort, the server takes their mean.

Source: Ying, Li and Yang, *Exact and Linear Convergence for Federated Learning under Arbitrary Client Participation is
Attainable*, NeurIPS 2025, arXiv:2503.20117, FOCUS, as in the authors' code (github.com/BichengYing/FedASL).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, LongRun
from fedsim.learning.problems.problem import Gradients


@dataclass(slots=True)
class Tracked:
    """g_i of each client; y, their sum, shape (d,); and the last gradients of the cohort that trains, (B, d)."""

    gradients: ByParticipant
    total: Floats
    latest: Floats

    def rule(self, models: Floats, gradients: Iterable[Gradients], step_sizes: Floats) -> Floats:
        """Take local steps along y_i, and keep the last gradients of the cohort."""
        tracked = np.zeros_like(models)
        for gradient in gradients:
            models = models - step_sizes[:, None] * tracked
            slopes = gradient(models)
            tracked, self.latest = tracked + slopes - self.latest, slopes
        return models


@dataclass(frozen=True)
class Focus(RemembersParticipants):
    """FOCUS: the server follows the sum of the last gradients of all clients, which are its state."""

    equal_steps: ClassVar[bool] = True
    footprint: ClassVar[Footprint] = Footprint(server=1, client=1)

    def init(self, clients: int, dimension: int) -> Tracked:
        return Tracked(ByParticipant(clients, dimension), np.zeros(dimension), np.zeros((0, dimension)))

    def prepare(self, state: Tracked, cohort: Cohort) -> tuple[Tracked, LocalSteps]:
        state.latest = state.gradients.of(cohort.clients)
        return state, LocalSteps(rule=state.rule)

    def apply(self, state: Tracked, model: Floats, cohort: Cohort, _deltas: Floats) -> tuple[Tracked, Floats]:
        state.total = state.total + state.gradients.keep(cohort.clients, state.latest)
        return state, model - cohort.step_sizes.mean() * state.total

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi, local_steps=1)
