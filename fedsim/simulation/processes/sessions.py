"""Sessions as processes: one client's participation, the sessions of a round, and those of a buffered server."""

from collections.abc import Callable, Generator

import simpy

from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.roster import IN_SESSION, Roster
from fedsim.simulation.world import EndedSession, LengthFunction


class SessionProcess:
    """One client's participation in the round or version `number`, in a row of the recorder, and its process.

    `ends` and `outcome` are when and how it ends if nothing cuts it. `on_end` is called with the session and its
    outcome when it has ended: a method of its own round, so that a late report can never count for another round, or of
    the sessions of a buffered server.
    """

    __slots__ = ("_clock", "_on_end", "_outcome", "_process", "client", "ends", "number", "row")

    def __init__(
        self,
        clock: Clock,
        on_end: Callable[["SessionProcess", str], None],
        number: int,
        client: int,
        row: int,
        ends: int,
        outcome: str = "reported",
    ) -> None:
        self._clock, self._on_end, self._outcome, self.number = clock, on_end, outcome, number
        self.client, self.row, self.ends = client, row, ends
        self._process = clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._clock.at(self.ends, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._on_end(self, self._outcome)

    def cut(self, outcome: str) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._on_end(self, outcome)


class ProcessRound:
    """One round's sessions, and the event at which the round may close.

    `target` is the number of reports at which it may close; `on_end` is called with each session that has ended, and
    its outcome. While the round is `open`, reports count. `sessions` are those still running, by client, in order of
    position. `may_close` happens when enough have reported or nobody is left: at that instant, not yet in the server's
    turn.
    """

    def __init__(self, clock: Clock, target: int, on_end: Callable[[SessionProcess, str], None]) -> None:
        self._target, self._on_end = target, on_end
        self.open, self.reported = True, 0
        self.sessions: dict[int, SessionProcess] = {}
        self.may_close = clock.event()

    def ended(self, session: SessionProcess, outcome: str) -> None:
        """Count a session that has ended; a report is late when the round has closed."""
        self._on_end(session, "late" if outcome == "reported" and not self.open else outcome)
        del self.sessions[session.client]
        if not self.open:
            return
        self.reported += outcome == "reported"
        if (self.reported >= self._target or not self.sessions) and not self.may_close.triggered:
            self.may_close.succeed()

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if self.reported >= self._target > 0:
            return "target"
        return "deadline" if self.sessions else "exhausted"

    @property
    def any_running(self) -> bool:
        """Whether any session still runs."""
        return bool(self.sessions)

    def close(self, outcome: str) -> None:
        """Take no more reports; after a deadline the others may go on, otherwise they are aborted."""
        self.open = False
        if outcome != "deadline":
            for session in list(self.sessions.values()):
                session.cut("aborted")


class ProcessBufferedSessions:
    """The sessions of a buffered server, each of them a process.

    `running` has the session of each client that is in one; devices that become unavailable cut them. The server gives
    a session up `deadline` after its start.
    """

    def __init__(
        self, clock: Clock, roster: Roster, running: dict[int, SessionProcess], lengths: LengthFunction, deadline: int
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
        """Return the sessions that have ended since the last call, in the order of their rows."""
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
