"""The clock: whole milliseconds, and the order within one instant."""

from typing import Final

import simpy
from simpy.events import EventPriority

from fedsim.common.instants import to_seconds
from fedsim.scenario.units import format_duration


class Turn:
    """The order within one instant. SimPy's own URGENT events (starts, interrupts) come before all but the first."""

    GATE: Final = EventPriority(0)
    DEVICE: Final = EventPriority(1)
    SESSION: Final = EventPriority(2)
    SERVER: Final = EventPriority(3)
    MATCH: Final = EventPriority(4)
    GAUGE: Final = EventPriority(5)
    STOP: Final = EventPriority(6)


class Clock(simpy.Environment):
    """A SimPy environment whose time is a whole number of milliseconds, with events at instants."""

    now: int

    def at(self, instant: int, turn: EventPriority) -> simpy.Event:
        """Return an event that happens at `instant`, or now where that is over, in the given turn."""
        return _Due(self, instant, turn)


class _Due(simpy.Event):
    """An event that will happen at an instant, as `simpy.Timeout` does after a delay."""

    def __init__(self, clock: Clock, instant: int, turn: EventPriority) -> None:
        self.env, self.callbacks, self._ok, self._value = clock, [], True, None
        delay = instant - clock.now
        clock.schedule(self, turn, delay if delay > 0 else 0)  # noqa: FURB136  this is called for every event


def in_words(ms: int) -> str:
    """Return an instant or a length of time as messages show it."""
    return format_duration(to_seconds(ms))
