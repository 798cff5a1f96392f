"""A session: one client's participation, from download through training to upload."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.keyed import Stream
from fedsim.log.recorder import CODES
from fedsim.population import Population
from fedsim.scenario.models import Session as SessionModel
from fedsim.scenario.sources import ConstantTime, ExponentialTime, LognormalTime
from fedsim.simulation.clock import Turn

if TYPE_CHECKING:
    from fedsim.simulation.world import World

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
        The round; the draw of phase j is keyed by (client, 3 * number + j).
    draws
        The stream for sessions.
    """
    total, group = np.zeros(len(clients)), population.group[clients]
    for index in np.unique(group):
        here = group == index
        model = models[index]
        for phase, law in enumerate((model.download, model.train, model.upload)):
            key = _PHASES * number + phase
            match law:
                case ConstantTime():
                    total[here] += law.value
                case ExponentialTime():
                    total[here] += law.mean * draws.exponentials(clients[here], key)
                case LognormalTime():
                    total[here] += law.median * np.exp(law.sigma * draws.normals(clients[here], key))
    return total / population.speed[clients]


class Session:
    """One client in one round, and its process.

    Parameters
    ----------
    world
        The simulation it is part of.
    round_
        The round that it reports to: its own object, so that a late report can never count for another round.
    client, row
        Who, and where the recorder keeps it.
    ends_s
        When it ends if nothing cuts it.
    """

    __slots__ = ("_client", "_process", "_world", "ends_s", "round", "row")

    def __init__(self, world: "World", round_: "Round", client: int, row: int, ends_s: float) -> None:
        self._world, self.round, self._client, self.row, self.ends_s = world, round_, client, row, ends_s
        self._process = world.clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._world.clock.at(self.ends_s, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._end("reported" if self.round.open else "late")

    def cut(self, outcome: str) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._end(outcome)

    def _end(self, outcome: str) -> None:
        world, client = self._world, self._client
        world.recorder.end(self.round.number, self.row, world.clock.now, CODES[outcome])
        world.session_ended(client, self.round.number, outcome)
        self.round.ended(client, outcome)


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

    def ended(self, client: int, outcome: str) -> None:
        """Take note that a session has ended."""
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
