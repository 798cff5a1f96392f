"""A session: one client's participation, from download through training to upload."""

from collections.abc import Callable, Generator

import simpy

from fedsim.simulation.clock import Clock, Turn


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
    ends, outcome
        When and how it ends if nothing cuts it.
    """

    __slots__ = ("_clock", "_ended", "_outcome", "_process", "client", "ends", "number", "row")

    def __init__(
        self,
        clock: Clock,
        ended: Callable[["SessionProcess", str], None],
        number: int,
        client: int,
        row: int,
        ends: int,
        outcome: str = "reported",
    ) -> None:
        self._clock, self._ended, self._outcome, self.number = clock, ended, outcome, number
        self.client, self.row, self.ends = client, row, ends
        self._process = clock.process(self._run())

    def _run(self) -> Generator[simpy.Event, None, None]:
        # Nothing happens between the phases that anyone could see, so one event stands for all three.
        try:
            yield self._clock.at(self.ends, Turn.SESSION)
        except simpy.Interrupt:
            return
        self._ended(self, self._outcome)

    def cut(self, outcome: str) -> None:
        """End the session before its time."""
        self._process.interrupt()
        self._ended(self, outcome)
