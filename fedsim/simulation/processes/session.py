"""A session: one client's participation, from download through training to upload."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.common.keyed import Stream
from fedsim.log.recorder import CODES
from fedsim.population import Population
from fedsim.population.distributions import Constant, distribution
from fedsim.scenario.models import Session as SessionModel
from fedsim.simulation.clock import Clock, Turn

if TYPE_CHECKING:
    from fedsim.simulation.processes.world import World

_PHASES = 3


def session_lengths(
    models: Sequence[SessionModel],
    population: Population,
    clients: NDArray[np.int64],
    number: int,
    draws: Stream,
) -> NDArray[np.float64]:
    """Return how long a cohort's sessions take if nothing ends them: (download + train + upload) / speed, in seconds.

    Parameters
    ----------
    models
        Session model of each group.
    population
        Whose speeds and groups are taken.
    clients
        (n,) indices of the cohort.
    number
        The round, or a buffered server's selection; the draw of phase j is keyed by (client, 3 * number + j).
    draws
        The stream for sessions.
    """
    total, group = np.zeros(len(clients)), population.group[clients]
    for index in np.unique(group):
        here = group == index
        model = models[index]
        for phase, source in enumerate((model.download, model.train, model.upload)):
            law, key = distribution(source), _PHASES * number + phase
            if isinstance(law, Constant):
                total[here] += law.value
            else:
                total[here] += law.draw(draws.uniforms(clients[here], key))
    return total / population.speed[clients]


class Sponsor(Protocol):
    """Whom a session reports to."""

    def done(self, session: "Session") -> None:
        """Take note that a session has come to its own end."""
        ...

    def ended(self, session: "Session", outcome: str) -> None:
        """Take note that a session has ended, and how."""
        ...


class Session:
    """One client's participation, and its process.

    Parameters
    ----------
    clock
        The simulation's clock.
    sponsor
        Whom it reports to: a round of its own, so that a late report can never count for another round, or the
        sessions in flight of a buffered server.
    number
        The round, or the version, of which it is.
    client, row
        Who, and where the recorder keeps it.
    ends_s
        When it ends if nothing cuts it.
    """

    __slots__ = ("_clock", "_process", "_sponsor", "client", "ends_s", "number", "row")

    def __init__(self, clock: Clock, sponsor: Sponsor, number: int, client: int, row: int, ends_s: float) -> None:
        self._clock, self._sponsor, self.number = clock, sponsor, number
        self.client, self.row, self.ends_s = client, row, ends_s
        self._process = clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._clock.at(self.ends_s, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._sponsor.done(self)

    def cut(self, outcome: str) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._sponsor.ended(self, outcome)


class Round:
    """One round's sessions, and the event at which the round may close.

    Attributes
    ----------
    number
        Index of the round.
    open
        Whether reports still count.
    sessions
        Those still running, by client, in order of position.
    may_close
        Happens when enough have reported or nobody is left.
    """

    __slots__ = ("_target", "_world", "may_close", "number", "open", "reported", "sessions")

    def __init__(self, world: "World", number: int, target: int) -> None:
        self._world, self._target = world, target
        self.number, self.open, self.reported = number, True, 0
        self.sessions: dict[int, Session] = {}
        self.may_close = simpy.Event(world.clock)

    def done(self, session: Session) -> None:
        """Take note that a session has come to its own end."""
        self.ended(session, "reported" if self.open else "late")

    def ended(self, session: Session, outcome: str) -> None:
        """Take note that a session has ended, and how."""
        world, client = self._world, session.client
        world.recorder.end(self.number, session.row, world.clock.now, CODES[outcome])
        world.session_ended(client, self.number, outcome)
        del self.sessions[client]
        if not self.open:
            return
        self.reported += outcome == "reported"
        if (self.reported >= self._target or not self.sessions) and not self.may_close.triggered:
            self._world.clock.trigger(self.may_close, Turn.SERVER)

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if self.reported >= self._target > 0:
            return "target"
        return "deadline" if self.sessions else "exhausted"

    @property
    def running(self) -> bool:
        """Whether any session still runs."""
        return bool(self.sessions)

    def close(self, outcome: str) -> None:
        """Take no more reports; after a deadline the others may go on, otherwise they are aborted."""
        self.open = False
        if outcome != "deadline":
            for session in list(self.sessions.values()):
                session.cut("aborted")
