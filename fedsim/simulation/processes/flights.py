"""The sessions in flight of a buffered server, each of them a process."""

from typing import TYPE_CHECKING

import numpy as np
import simpy
from numpy.typing import NDArray

from fedsim.simulation.federation import Landing
from fedsim.simulation.processes.device import cooldown
from fedsim.simulation.processes.roster import Bar
from fedsim.simulation.processes.session import Session, session_lengths

if TYPE_CHECKING:
    from fedsim.simulation.processes.world import World


class ProcessFlights:
    """What a buffered server needs of its sessions, in the engine of processes.

    Parameters
    ----------
    world
        Whose clock, roster and running sessions they share.
    """

    def __init__(self, world: "World") -> None:
        self._world, self._landed = world, list[Landing]()
        self._fates: dict[int, str] = {}  # by row: the outcome at its own end

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._fates)

    def start(self, version: int, key: int, cohort: NDArray[np.int64], row: int) -> None:
        """Start sessions; `key` is that of their lengths, `row` the recorder's of the first."""
        world, now = self._world, self._world.clock.now
        deadline = world.scenario.server.deadline
        limit_s = np.inf if deadline is None else now + deadline
        lengths = session_lengths(world.session_models, world.population, cohort, key, world.session_draws)
        for place, (client, end_s) in enumerate(zip(cohort.tolist(), (now + lengths).tolist(), strict=True), start=row):
            self._fates[place] = "late" if end_s > limit_s else "reported"
            world.roster.bar(client, Bar.IN_SESSION)
            world.sessions[client] = Session(world.clock, self, version, client, place, min(end_s, limit_s))

    def done(self, session: Session) -> None:
        """Take note that a session has come to its own end."""
        self.ended(session, self._fates[session.row])

    def ended(self, session: Session, outcome: str) -> None:
        """Take note that a session has ended, and how; the server takes it in its turn."""
        world = self._world
        del world.sessions[session.client], self._fates[session.row]
        self._landed.append(Landing(session.row, session.client, session.number, outcome))
        world.roster.clear(session.client, Bar.IN_SESSION)
        world.roster.wake()

    def landed(self) -> list[Landing]:
        """Return the sessions that have ended since the last call, in the order of their rows."""
        landed, self._landed = sorted(self._landed), []
        return landed

    def rest(self, clients: NDArray[np.int64], version: int) -> None:
        """Begin the cool-down of clients now, at a version."""
        world = self._world
        for client, separation, rest_s in zip(
            clients.tolist(),
            world.population.separation[clients].tolist(),
            world.population.cooldown_s[clients].tolist(),
            strict=True,
        ):
            world.roster.bar_until_round(client, version + 1 + separation)
            if rest_s:
                world.roster.bar(client, Bar.COOLDOWN)  # its process begins only after this turn
                world.clock.process(cooldown(world, client, world.clock.now + rest_s))

    def wait(self, *, free: bool, until_s: float) -> simpy.Event:
        """Return an event in the server's turn of the next end, or of the first instant with somebody eligible."""
        nobody = len(self._world.population) + 1
        return self._world.roster.wait_for(1 if free else nobody, until_s)

    def abort(self) -> list[Landing]:
        """Cut all sessions short: the run is over."""
        for session in list(self._world.sessions.values()):
            session.cut("aborted")
        return self.landed()
