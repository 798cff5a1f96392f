"""ACE: a step at each arrival, along the mean of what every client did last.

::

    at each report, of client j:
        G_j = Delta_j
        x   <- x + (1/N) sum_i G_i                                    ACE
        x   <- x + (1/|A|) sum_{i in A} G_i                           ACED, with `max_age`

A are the clients whose last report is at most `max_age` steps old, the current one being of age 0; a client counts for
nothing before its first report. The reports of a round, or of a buffer, make as many steps, in the order of the cohort,
along changes that the clients worked out before the first of them; a server update is given these steps together. With
one report a step ACE is MIFA; with B it moves about B times as far a round, and needs a smaller step size.

All clients have the same weight in every step, so participation does not bias ACE; the price is out-of-date directions.
ACED drops those, and with them the even weights; with `max_age` 0 it rests where FedAvg does.

Source: Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak and Roy-Chowdhury, *Mitigating Participation
Imbalance Bias in Asynchronous Federated Learning*, arXiv:2511.19066: ACE, and its delay-aware variant ACED.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.optimizer import Cohort, LongRun, PlainSteps


@dataclass(slots=True)
class LastChanges:
    """The last change of each of N clients, and the sum of those that count, shape (d,)."""

    changes: ByParticipant
    total: Floats
    clients: int
    # with `max_age`, who reported in each of the last steps, oldest first
    recent: deque[int] = field(default_factory=deque)
    # how often each client occurs in `recent`; those that do count
    reports: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ace(RemembersParticipants, PlainSteps[LastChanges]):
    """ACE: a step at each arrival, along the mean of what all clients did last, which is its state."""

    max_age: Annotated[int, Field(ge=0)] | None = None
    """Largest age, in reports, of a client's last report that counts (ACED); null: any (ACE)."""

    def init(self, clients: int, dimension: int) -> LastChanges:
        return LastChanges(ByParticipant(clients, dimension), np.zeros(dimension), clients)

    def apply(self, state: LastChanges, model: Floats, cohort: Cohort, deltas: Floats) -> tuple[LastChanges, Floats]:
        before, now = state.changes.of(cohort.clients), dict[int, Floats]()
        moved = np.zeros_like(model)
        for client, last, delta in zip(cohort.clients.tolist(), before, deltas, strict=True):
            if self.max_age is None or client in state.reports:
                state.total = state.total - now.get(client, last)
            state.total = state.total + delta
            now[client] = delta
            counting = state.clients if self.max_age is None else self._age(state, client, now)
            moved += state.total / counting
        state.changes.keep(cohort.clients, deltas)
        return state, model + moved

    def _age(self, state: LastChanges, client: int, now: dict[int, Floats]) -> int:
        """Count a report, drop the client that has become too old by it, and return how many clients count."""
        state.recent.append(client)
        state.reports[client] = state.reports.get(client, 0) + 1
        if len(state.recent) > (self.max_age or 0) + 1:
            oldest = state.recent.popleft()
            state.reports[oldest] -= 1
            if not state.reports[oldest]:
                del state.reports[oldest]
                gone = now.get(oldest)
                state.total = state.total - (state.changes.of(np.array([oldest]))[0] if gone is None else gone)
        return len(state.reports)

    def long_run(self, pi: Floats) -> LongRun | None:
        return LongRun.evenly(pi) if self.max_age is None else None
