"""Amplified FedAvg and SCAFFOLD: every P rounds the change accumulated over them is multiplied.

::

    x_{t+1} = x_t + (1/|S_t|) sum_{i in S_t} Delta_i
    x_{t+1} <- x_{t_0} + eta (x_{t+1} - x_{t_0})     after t = P - 1, 2 P - 1, ...; t_0 = t + 1 - P

If an interval hears all clients alike, as over the cycles of cyclic participation, the server can take a large step
along their common direction without following those who were there last. It rests where FedAvg does. Rounds are counted
as the log numbers them: if the last round of an interval has no report, the model is amplified at the beginning of the
next round with one, before that round's clients train.

Source: Wang and Ji, *A Unified Analysis of Federated Learning with Arbitrary Client Participation*, NeurIPS 2022,
arXiv:2205.13648, generalised FedAvg.

Amplified SCAFFOLD has controls over the same intervals::

    x^i_{t,k+1} = x^i_{t,k} - alpha (grad f_i(x^i_{t,k}) - G_i + G)
    G_i <- mean of all gradients grad f_i(x^i_{r,k}) of rounds r = t_0, ..., t, if client i took part in any
    G    = (1/N) sum_i G_i

G_i is 0 before the end of a client's first interval, so the first interval is Amplified FedAvg. It rests where SCAFFOLD
does, G = 0 and G_i = grad f_i(x); with P = 1 and eta = 1 it is SCAFFOLD.

Source: Crawshaw and Liu, *Federated Learning under Periodic Client Participation and Heterogeneous Data: A New
Communication-Efficient Algorithm and Analysis*, NeurIPS 2024, arXiv:2410.23131, Amplified SCAFFOLD, with controls that
are zero at first, as in the authors' code.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps, LongRun
from fedsim.learning.optimizers.scaffold import Controls


@dataclass(slots=True)
class CurrentInterval:
    """The number t // P of the current interval, and the model at its beginning; None between two intervals."""

    number: int = 0
    start: Floats | None = None


@dataclass(frozen=True)
class Amplified:
    """An optimizer that amplifies the change over each interval."""

    footprint: ClassVar[Footprint] = Footprint(server=1)

    interval: Annotated[int, Field(ge=1)] = 10
    """P: rounds, or versions of a buffered server, over which the change is amplified; for cyclic participation the
    length of a cycle.
    """
    amplification: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.5
    """Factor on the change over an interval; 1 amplifies nothing. Larger ones need shorter steps."""

    def overdue(self, current: CurrentInterval, cohort: Cohort) -> bool:
        """Say whether an earlier interval has ended without a report in its last round."""
        return current.start is not None and current.number != cohort.round // self.interval

    def closes(self, cohort: Cohort) -> bool:
        """Say whether this is the last round of an interval."""
        return (cohort.round + 1) % self.interval == 0

    def starts(self, current: CurrentInterval, cohort: Cohort) -> Floats | None:
        """Return the amplified model from which a cohort starts, shape (B, d), if that is overdue, or None."""
        if not self.overdue(current, cohort) or cohort.downloaded.ndim > 1:
            return None
        model = self._amplified(current, cohort.downloaded)
        return np.broadcast_to(model, (len(cohort.clients), len(model)))

    def moved(self, current: CurrentInterval, model: Floats, cohort: Cohort, change: Floats) -> Floats:
        """Return the model moved by the cohort's change, and amplified where that is due."""
        if self.overdue(current, cohort):
            model, current.start = self._amplified(current, model), None
        if current.start is None:
            current.number, current.start = cohort.round // self.interval, model
        model = model + change
        if self.closes(cohort):
            model, current.start = self._amplified(current, model), None
        return model

    def _amplified(self, current: CurrentInterval, model: Floats) -> Floats:
        return model if current.start is None else model + (self.amplification - 1.0) * (model - current.start)


@dataclass(frozen=True)
class AmplifiedFedAvg(Amplified):
    """Amplified FedAvg: the change over each interval is multiplied. Its state is that, and its first model."""

    def init(self, _clients: int, _dimension: int) -> CurrentInterval:
        return CurrentInterval()

    def prepare(self, state: CurrentInterval, cohort: Cohort) -> tuple[CurrentInterval, LocalSteps]:
        return state, LocalSteps(starts=self.starts(state, cohort))

    def apply(
        self, state: CurrentInterval, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[CurrentInterval, Floats]:
        return state, self.moved(state, model, cohort, np.add.reduce(deltas, axis=0) / len(deltas))

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.by_frequency(pi)


class IntervalControls(Controls):
    """G_i and G; the sum of each client's mean gradients in the interval; who took part in it; the interval."""

    def __init__(self, clients: int, dimension: int) -> None:
        super().__init__(clients, dimension)
        self.sums, self.heard, self.current = ByParticipant(clients, dimension), list[Ints](), CurrentInterval()

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
        self.keep(clients, sums / times[:, None])
        self.sums.keep(clients, np.zeros_like(sums))
        self.heard.clear()


@dataclass(frozen=True)
class AmplifiedScaffold(Amplified, RemembersParticipants):
    """Amplified SCAFFOLD: the change over each interval is multiplied. Its state is that, and the controls."""

    footprint: ClassVar[Footprint] = Footprint(server=2, client=2, sent=2)
    tables: ClassVar[int] = 2

    def init(self, clients: int, dimension: int) -> IntervalControls:
        return IntervalControls(clients, dimension)

    def prepare(self, state: IntervalControls, cohort: Cohort) -> tuple[IntervalControls, LocalSteps]:
        starts = self.starts(state.current, cohort)
        if self.overdue(state.current, cohort):
            state.close()
        return state, LocalSteps(starts=starts, corrections=state.corrections(cohort))

    def apply(
        self, state: IntervalControls, model: Floats, cohort: Cohort, deltas: Floats
    ) -> tuple[IntervalControls, Floats]:
        state.hear(cohort.clients, state.local_gradients(cohort, deltas))
        model = self.moved(state.current, model, cohort, deltas.mean(axis=0))
        if self.closes(cohort):
            state.close()
        return state, model

    def long_run(self, pi: Floats) -> LongRun:
        return LongRun.evenly(pi, local_steps=1)
