"""The running sessions of a buffered server, each of them a process."""

import math

import simpy

from fedsim.common.arrays import Ints
from fedsim.simulation.clock import Clock
from fedsim.simulation.processes.roster import Roster
from fedsim.simulation.processes.session import EndedSession, Lengths, SessionProcess
from fedsim.simulation.reasons import Reason


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
    deadline_s
        When the server gives a session up.
    """

    def __init__(
        self, clock: Clock, roster: Roster, running: dict[int, SessionProcess], lengths: Lengths, deadline_s: float
    ) -> None:
        self._clock, self._roster, self._running = clock, roster, running
        self._lengths, self._deadline_s = lengths, deadline_s
        self._ended = list[EndedSession]()

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._running)

    def start(self, version: int, key: int, cohort: Ints, row: int) -> None:
        """Start sessions; `key` is that of their lengths, `row` the recorder's of the first."""
        now = self._clock.now
        limit_s = now + self._deadline_s
        ends = (now + self._lengths(cohort, key)).tolist()
        for place, (client, end_s) in enumerate(zip(cohort.tolist(), ends, strict=True), start=row):
            self._roster.exclude(client, Reason.IN_SESSION)
            outcome = "late" if end_s > limit_s else "reported"
            session = SessionProcess(
                self._clock, self._session_ended, version, client, place, min(end_s, limit_s), outcome
            )
            self._running[client] = session

    def take_ended(self) -> list[EndedSession]:
        """Hand over the sessions that have ended since the last call, in the order of their rows."""
        ended, self._ended = sorted(self._ended), []
        return ended

    def wait(self, *, free: bool, until_s: float) -> simpy.Event:
        """Return an event in the server's turn of the next end, or of the first instant with somebody eligible."""
        return self._roster.wait_for(1 if free else math.inf, until_s)

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short: the run is over."""
        for session in list(self._running.values()):
            session.cut("aborted")
        return self.take_ended()

    def _session_ended(self, session: SessionProcess, outcome: str) -> None:
        del self._running[session.client]
        self._ended.append(EndedSession(session.row, session.client, session.number, outcome))
        self._roster.readmit(session.client, Reason.IN_SESSION)
        self._roster.wake()
