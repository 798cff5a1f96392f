"""A session: one client's participation, from download through training to upload."""

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias

import numpy as np
import simpy

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population import Population
from fedsim.population.distributions import Constant, distribution
from fedsim.scenario import Scenario
from fedsim.simulation.clock import Clock, Turn

Lengths: TypeAlias = Callable[[Ints, int], Floats]
"""How long the sessions of clients (n,) take, in the round or selection of that number: seconds (n,)."""

_PHASES = 3


def session_lengths(scenario: Scenario, population: Population, draws: Stream) -> Lengths:
    """Return what tells how long a cohort's sessions take if nothing ends them: (download + train + upload) / speed.

    Parameters
    ----------
    scenario, population
        Whose sessions, speeds and groups are taken.
    draws
        The stream for sessions; the draw of phase j is keyed by (client, 3 * number + j), number being that of the
        round, or of a buffered server's selection.
    """
    laws = [
        [distribution(source) for source in (each.session.download, each.session.train, each.session.upload)]
        for each in scenario.population
    ]

    equally_fast = bool((population.speed == 1.0).all())

    def in_group(index: int, clients: Ints, number: int) -> Floats:
        total = np.zeros(len(clients))
        for phase, law in enumerate(laws[index]):
            if isinstance(law, Constant):
                total += law.value
            else:
                total += law.draw(draws.uniforms(clients, _PHASES * number + phase))
        return total

    def lengths(clients: Ints, number: int) -> Floats:
        if len(laws) == 1:
            total = in_group(0, clients, number)
        else:
            total, group = np.empty(len(clients)), population.group[clients]
            for index in np.unique(group).tolist():
                here = group == index
                total[here] = in_group(index, clients[here], number)
        return total if equally_fast else total / population.speed[clients]

    return lengths


class EndedSession(NamedTuple):
    """A session of a buffered server that has ended; in the order of rows, which is that of versions and positions.

    Attributes
    ----------
    row
        The recorder's.
    client
        Whose it was.
    version
        Of the server, when it began.
    outcome
        ``reported``, which is still for the server to judge, ``dropped``, ``late`` or ``aborted``.
    """

    row: int
    client: int
    version: int
    outcome: str


class SessionProcess:
    """One client's participation, and its process.

    Parameters
    ----------
    clock
        The simulation's clock.
    ended
        Called with the session and its outcome when it has ended: of a round of its own, so that a late report can
        never count for another round, or of the sessions of a buffered server.
    number
        The round, or the version, of which it is.
    client, row
        Who, and where the recorder keeps it.
    ends_s, outcome
        When and how it ends if nothing cuts it.
    """

    __slots__ = ("_clock", "_ended", "_outcome", "_process", "client", "ends_s", "number", "row")

    def __init__(
        self,
        clock: Clock,
        ended: Callable[["SessionProcess", str], None],
        number: int,
        client: int,
        row: int,
        ends_s: float,
        outcome: str = "reported",
    ) -> None:
        self._clock, self._ended, self._outcome, self.number = clock, ended, outcome, number
        self.client, self.row, self.ends_s = client, row, ends_s
        self._process = clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._clock.at(self.ends_s, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._ended(self, self._outcome)

    def cut(self, outcome: str) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._ended(self, outcome)
