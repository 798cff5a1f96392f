"""The running sessions of a buffered server, in a heap: when and how each ends is known when it starts."""

from heapq import heappop, heappush

import numpy as np
import simpy

from fedsim.common.arrays import Ints
from fedsim.simulation.arrays.foreseen import ForeseenAvailability
from fedsim.simulation.arrays.roster import ArrayRoster
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.sessions import EndedSession, Lengths


class ArrayBufferedSessions:
    """What a buffered server needs of its sessions, in the vectorized engine.

    Parameters
    ----------
    clock, roster
        Those of the simulation.
    devices
        The availability of all devices.
    lengths
        How long sessions take.
    deadline
        When the server gives a session up.
    """

    def __init__(
        self, clock: Clock, roster: ArrayRoster, devices: ForeseenAvailability, lengths: Lengths, deadline: int
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
        """Hand over the sessions that have ended since the last call, in the order of their rows."""
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
