"""FedAWE: clients go on from their own models, and make up for the rounds that they missed.

::

    x_i     = the model that client i was given last, x_0 before it first takes part
    tau_i   = the round in which it last took part, -1 before
    Delta_i = what its K local steps from x_i change
    x_{t+1} = (1/|S_t|) sum_{i in S_t} (x_i + eta (t - tau_i) Delta_i)
    x_i     = x_{t+1} and tau_i = t  for i in S_t;    the others keep theirs

The change is echoed (t - tau_i) times, so after t rounds every client has contributed t echoes; and since only those
who took part get the mean of their models, models spread from cohort to cohort (implicit gossip) with even weights. For
small steps and cohorts that mix it rests at the optimum; cohorts of one client, or groups that never meet, go to optima
of their own. An echo after a long absence is as long as many steps, and needs small step sizes.

Over a buffered log a client is given the version that its buffer made, and has it when it downloads next; if it
downloads before that buffer is full, it starts from the version that it downloads. A client's second report in one
version is echoed no times, and counts with its start point alone.

Source: Xiang, Ioannidis, Yeh, Joe-Wong and Su, *Efficient Federated Learning against Heterogeneous and Non-stationary
Client Unavailability*, NeurIPS 2024, arXiv:2409.17446.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, Footprint, LocalSteps


@dataclass(slots=True)
class OwnModels:
    """What each of N clients was given last, less x_0, and when."""

    # the models of all clients, except those of the last step, who are given the model that comes next
    given: ByParticipant
    last: Ints  # tau_i, shape (N,)
    starts: Floats  # where the clients of this step start, shape (B, d)
    # cohort, step: who took part in the last step, and its round
    cohort: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    step: int = -1
    initial: Floats = field(default_factory=lambda: np.empty(0))  # x_0; empty before the first step


@dataclass(frozen=True)
class FedAwe(RemembersParticipants):
    """FedAWE: clients go on from their own models, and make up for rounds missed. Its state is these."""

    footprint: ClassVar[Footprint] = Footprint(client=1)
    reuses_updates: ClassVar[bool] = False
    step_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Step size of the server, which multiplies each client's change by the rounds it missed. Local steps x step size x
    curvature x rounds missed must be well below 2.
    """

    def init(self, clients: int, dimension: int) -> OwnModels:
        return OwnModels(ByParticipant(clients, dimension), np.full(clients, -1), np.zeros((0, dimension)))

    def prepare(self, state: OwnModels, cohort: Cohort) -> tuple[OwnModels, LocalSteps]:
        if not len(state.initial):
            state.initial = np.atleast_2d(cohort.downloaded)[0].copy()
        # A client that took part in the step that made the version that it downloads was given that version.
        newest = state.last[cohort.clients] >= state.step - cohort.staleness
        newest |= _repeated(cohort.clients)
        models = state.initial + state.given.of(cohort.clients)
        state.starts = np.where(newest[:, None], cohort.downloaded, models)
        return state, LocalSteps(starts=state.starts)

    def apply(self, state: OwnModels, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[OwnModels, Floats]:
        state.given.keep(state.cohort, np.tile(model - state.initial, (len(state.cohort), 1)))
        echoes = np.where(_repeated(cohort.clients), 0, cohort.round - state.last[cohort.clients])
        state.last[cohort.clients] = cohort.round
        state.cohort, state.step = cohort.clients, cohort.round
        return state, (state.starts + self.step_size * echoes[:, None] * deltas).mean(axis=0)


def _repeated(clients: Ints) -> Bools:
    """Return which entries of a cohort are a client's second or later one, shape (B,)."""
    repeated = np.ones(len(clients), dtype=np.bool_)
    repeated[np.unique(clients, return_index=True)[1]] = False
    return repeated
