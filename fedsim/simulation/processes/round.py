"""A round's sessions, each of them a process, and when the round may close."""

from collections.abc import Callable

from fedsim.simulation.clock import Clock
from fedsim.simulation.processes.session import SessionProcess


class ProcessRound:
    """One round's sessions, and the event at which the round may close.

    Parameters
    ----------
    clock
        The simulation's clock.
    target
        Reports at which the round may close.
    told
        Called with every session that has ended, and its outcome.

    Attributes
    ----------
    open
        Whether reports still count.
    sessions
        Those still running, by client, in order of position.
    may_close
        Happens when enough have reported or nobody is left: at the instant of that, not yet in the server's turn.
    """

    def __init__(self, clock: Clock, target: int, told: Callable[[SessionProcess, str], None]) -> None:
        self._target, self._told = target, told
        self.open, self.reported = True, 0
        self.sessions: dict[int, SessionProcess] = {}
        self.may_close = clock.event()

    def ended(self, session: SessionProcess, outcome: str) -> None:
        """Take note that a session has ended, and how: a report is late when the round has closed."""
        self._told(session, "late" if outcome == "reported" and not self.open else outcome)
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
    def running(self) -> bool:
        """Whether any session still runs."""
        return bool(self.sessions)

    def close(self, outcome: str) -> None:
        """Take no more reports; after a deadline the others may go on, otherwise they are aborted."""
        self.open = False
        if outcome != "deadline":
            for session in list(self.sessions.values()):
                session.cut("aborted")
