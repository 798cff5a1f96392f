"""The running sessions of a buffered server, each of them a process."""

import simpy

from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER
from fedsim.simulation.clock import Clock
from fedsim.simulation.processes.roster import IN_SESSION, Roster
from fedsim.simulation.processes.session import SessionProcess
from fedsim.simulation.sessions import EndedSession, Lengths


class ProcessBufferedSessions:
    """What a buffered server needs of its sessions, in the engine of processes.

    Parameters
    ----------
    clock, roster
        Those of the simulation.
    running
        The running session of each client that is in one, which devices that go offline cut.
    lengths
        How long sessions take.
    deadline
        How long after its start the server gives a session up.
    """

    def __init__(
        self, clock: Clock, roster: Roster, running: dict[int, SessionProcess], lengths: Lengths, deadline: int
    ) -> None:
        self._clock, self._roster, self._running = clock, roster, running
        self._lengths, self._deadline = lengths, deadline
        self._ended = list[EndedSession]()

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._running)

    def start(self, version: int, key: int, cohort: Ints, row: int) -> None:
        """Start sessions; `key` is that of their lengths, `row` the recorder's of the first."""
        now = self._clock.now
        limit = now + self._deadline
        ends = (now + self._lengths(cohort, key)).tolist()
        for place, (client, end) in enumerate(zip(cohort.tolist(), ends, strict=True), start=row):
            self._roster.hold(client, IN_SESSION)
            outcome = "late" if end > limit else "reported"
            session = SessionProcess(self._clock, self._session_ended, version, client, place, min(end, limit), outcome)
            self._running[client] = session

    def take_ended(self) -> list[EndedSession]:
        """Hand over the sessions that have ended since the last call, in the order of their rows."""
        ended, self._ended = sorted(self._ended), []
        return ended

    def wait(self, *, free: bool, until: int) -> simpy.Event:
        """Return an event of the next end or, with places free, of the first instant with somebody eligible."""
        return self._roster.wait_for(1 if free else FOREVER, until)

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short as aborted: the run is over."""
        for session in list(self._running.values()):
            session.cut("aborted")
        return self.take_ended()

    def _session_ended(self, session: SessionProcess, outcome: str) -> None:
        del self._running[session.client]
        self._ended.append(EndedSession(session.row, session.client, session.number, outcome))
        self._roster.lift(session.client, IN_SESSION)
        self._roster.wake()
