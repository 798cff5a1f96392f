"""Sessions as arrays: when and how each ends is known when it starts."""

from heapq import heappop, heappush

import numpy as np
import simpy

from fedsim.common.arrays import Ints
from fedsim.common.instants import FOREVER
from fedsim.log.recorder import CODES
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.world import EndedSession, LengthFunction


class ArrayRound:
    """One round whose sessions are arrays: `ends` and `outcomes` (n,) are when each ends, and the code of how.

    `may_close` happens when enough have reported or nobody is left; never, where the deadline comes first.

    A session reports at its own end, or drops out at the end of its device's availability if that does not come later.
    The round may close at the instant of the report that reaches the target, or of the last end. What still runs when
    it closes is aborted; after a deadline it goes on and is late.
    """

    def __init__(
        self, clock: Clock, number: int, target: int, own_ends: Ints, device_ends: Ints, deadline: int
    ) -> None:
        now = clock.now
        dropped = device_ends <= own_ends
        if some_drop := bool(dropped.any()):
            ends = np.minimum(own_ends, device_ends)
            reports = np.sort(own_ends[~dropped])
        else:
            ends, reports = own_ends, np.sort(own_ends)
        enough = reports[target - 1] if len(reports) >= target > 0 else FOREVER
        close = min(int(enough), int(ends.max(initial=now)))
        until = now + deadline
        self.number, self.closed, self.stopped = number, False, False
        self._clock, self._target, self._reports, self._all_ends = clock, target, reports, ends
        self.may_close = clock.at(close, Turn.SERVER) if close <= until else clock.event()
        outcomes = np.full(len(ends), CODES["reported"], dtype=np.int8)
        if some_drop:
            outcomes[dropped] = CODES["dropped"]
        if close > until:
            outcomes[(ends > until) & ~dropped] = CODES["late"]
        elif (cut := ends > close).any():
            outcomes[cut] = CODES["aborted"]
            ends = np.where(cut, close, ends)
        self.ends, self.outcomes = ends, outcomes

    @property
    def any_running(self) -> bool:
        """Whether any session still runs."""
        return bool((self._all_ends > self._clock.now).any())

    @property
    def outcome(self) -> str:
        """How the round closes, if it closes now."""
        if self._reports.searchsorted(self._clock.now, side="right") >= self._target > 0:
            return "target"
        return "deadline" if self.any_running else "exhausted"

    def close(self, outcome: str) -> None:
        """Take no more reports; what follows for the sessions has been known from the start, but for a stop."""
        self.closed, self.stopped = True, outcome == "stopped"


class ArrayBufferedSessions:
    """The running sessions of a buffered server, in a heap by their ends.

    The server gives a session up `deadline` after its start.
    """

    def __init__(
        self,
        clock: Clock,
        roster: ArrayRoster,
        devices: PrecomputedAvailability,
        lengths: LengthFunction,
        deadline: int,
    ) -> None:
        self._clock, self._roster, self._devices = clock, roster, devices
        self._lengths, self._deadline = lengths, deadline
        self._ends: list[tuple[int, EndedSession]] = []

    @property
    def count(self) -> int:
        """Sessions that run."""
        return len(self._ends)

    def start(self, version: int, key: int, cohort: Ints, row: int) -> None:
        """Work out how sessions end; `key` is that of their lengths, `row` the recorder's of the first."""
        now = self._clock.now
        limit = now + self._deadline
        own_ends = now + self._lengths(cohort, key)
        ends = np.minimum(own_ends, limit)
        device_ends = self._devices.ends(cohort, now, ends)
        dropped = device_ends <= ends
        outcomes = np.where(dropped, "dropped", np.where(own_ends > limit, "late", "reported"))
        ends = np.where(dropped, device_ends, ends)
        self._roster.start(cohort, ends)
        for place, (end, client, outcome) in enumerate(
            zip(ends.tolist(), cohort.tolist(), outcomes.tolist(), strict=True), start=row
        ):
            heappush(self._ends, (end, EndedSession(place, client, version, outcome)))

    def take_ended(self) -> list[EndedSession]:
        """Return the sessions that have ended since the last call, in the order of their rows."""
        ended = []
        while self._ends and self._ends[0][0] <= self._clock.now:
            ended.append(heappop(self._ends)[1])
        return sorted(ended)

    def wait(self, *, free: bool, until: int) -> simpy.Event:
        """Return an event in the server's turn of the next end, or of the first instant with somebody eligible."""
        if not self._ends:
            return self._roster.wait_for(1, until)
        until = min(until, self._ends[0][0])
        return self._clock.at(min(until, self._roster.next_eligible(until)) if free else until, Turn.SERVER)

    def abort(self) -> list[EndedSession]:
        """Cut all sessions short: the run is over."""
        ended = sorted(session._replace(outcome="aborted") for _, session in self._ends)
        self._ends.clear()
        return ended
