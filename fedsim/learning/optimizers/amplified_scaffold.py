"""Amplified SCAFFOLD: controls over intervals of P rounds, and the change over each interval multiplied.

::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) - G_i + G)
    x_{t+1}     = x_t + (1/|S_t|) sum_{i in S_t} Delta_i
    after t = P - 1, 2 P - 1, ..., with t_0 = t + 1 - P:
    x_{t+1} <- x_{t_0} + eta (x_{t+1} - x_{t_0})
    G_i     <- mean of all gradients grad f_i(x^i_{r,k}) of rounds r = t_0, ..., t, if client i took part in any
    G        = (1/N) sum_i G_i

G_i is 0 before the end of a client's first interval, so the first interval is Amplified FedAvg. It rests where SCAFFOLD
does, G = 0 and G_i = grad f_i(x); with P = 1 and eta = 1 it is SCAFFOLD.

Source: Crawshaw and Liu, *Federated Learning under Periodic Client Participation and Heterogeneous Data: A New
Communication-Efficient Algorithm and Analysis*, NeurIPS 2024, arXiv:2410.23131, Amplified SCAFFOLD, with controls that
are zero at first, as in the authors' code.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.amplified_fedavg import Amplified, CurrentInterval
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, LocalSteps, LongRun
from fedsim.learning.optimizers.scaffold import Controls


@dataclass(slots=True)
class IntervalControls:
    """G_i and G; the sum of each client's mean gradients in the interval; who took part in it; the interval."""

    controls: Controls
    sums: ByParticipant
    heard: list[Ints] = field(default_factory=list)
    current: CurrentInterval = field(default_factory=CurrentInterval)

    def hear(self, clients: Ints, gradients: Floats) -> None:
        """Add the mean local gradients of a cohort, shape (B, d), to the sums."""
        self.heard.append(clients)
        once, place = np.unique(clients, return_inverse=True)
        sums = self.sums.of(once)
        np.add.at(sums, place, gradients)
        self.sums.keep(once, sums)

    def close(self) -> None:
        """Replace the controls of those who took part in the interval by the means of their gradients."""
        clients, times = np.unique(np.concatenate(self.heard), return_counts=True)
        sums = self.sums.of(clients)
        self.controls.keep(clients, sums / times[:, None])
        self.sums.keep(clients, np.zeros_like(sums))
        self.heard.clear()


@dataclass(frozen=True)
class AmplifiedScaffold(Amplified, RemembersParticipants):
    """Amplified SCAFFOLD; options as in `Amplified`."""

    tables: ClassVar[int] = 2
    reuses_updates: ClassVar[bool] = True

    def init(self, clients: int, dimension: int) -> IntervalControls:
        return IntervalControls(Controls.nothing(clients, dimension), ByParticipant(clients, dimension))

    def prepare(self, state: IntervalControls, cohort: Cohort) -> tuple[IntervalControls, LocalSteps]:
        starts = self.starts(state.current, cohort)
        if self.overdue(state.current, cohort):
            state.close()
        return state, LocalSteps(starts=starts, corrections=state.controls.corrections(cohort))

    def apply(
        self, state: IntervalControls, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[IntervalControls, Floats]:
        state.hear(cohort.clients, state.controls.local_gradients(cohort, deltas))
        model = self.moved(state.current, model, cohort, deltas.mean(axis=0))
        if self.closes(cohort):
            state.close()
        return state, model

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi, local_steps=1)
