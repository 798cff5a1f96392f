"""Simulated time, and who goes first when several things happen at one instant."""

from enum import IntEnum
from heapq import heappush

import simpy
from simpy.events import EventPriority

from fedsim.scenario.units import format_duration


class Turn(IntEnum):
    """The order within one instant. SimPy's own URGENT events (starts, interrupts) come before all of these."""

    DEVICE = 1
    SESSION = 2
    SERVER = 3
    GAUGE = 4
    STOP = 5


class _Due(simpy.Event):
    """An event that will happen, with nothing to say."""

    def __init__(self, clock: simpy.Environment) -> None:
        self.env, self.callbacks, self._ok, self._value = clock, [], True, None


class Clock(simpy.Environment):
    """A SimPy environment with events at absolute instants.

    SimPy schedules by delay, and now + (t - now) need not equal t. Here an event for t happens at exactly t, so that
    two things due at the same instant meet there whatever the way they were computed.
    """

    def at(self, instant: float, turn: Turn) -> simpy.Event:
        """Return an event that happens at `instant` (not before now), in the given turn."""
        event, now = _Due(self), self._now
        priority: EventPriority = turn  # type: ignore[assignment]  # a call that changes nothing costs time here
        heappush(self._queue, (instant if instant > now else now, priority, next(self._eid), event))  # noqa: FURB136
        return event

    def trigger(self, event: simpy.Event, turn: Turn) -> None:
        """Let a waiting event happen now, in the given turn."""
        event._ok, event._value = True, None
        self.schedule(event, EventPriority(turn))

    def forget(self) -> None:
        """Let go of all that is due: the simulation is over, and what waits for it would keep it in memory."""
        for *_, event in self._queue:
            event.callbacks = []
        self._queue.clear()


def in_words(seconds: float) -> str:
    """Return an instant or a length of time as messages show it, to the millisecond."""
    return format_duration(round(seconds, 3))
