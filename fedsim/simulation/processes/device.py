"""A device: the process by which it becomes available and unavailable."""

import math
from collections.abc import Callable, Generator

import simpy

from fedsim.availability import Intervals
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.roster import Roster
from fedsim.simulation.reasons import Reason


def device(
    clock: Clock, roster: Roster, client: int, available: Intervals, drop_out: Callable[[int], None]
) -> Generator[simpy.Event, None, None]:
    """Follow one device through its available intervals.

    Parameters
    ----------
    clock, roster
        Those of the simulation.
    client, available
        Whose device it is, and when it is available.
    drop_out
        Called with the client when an interval ends: a running session drops out.
    """
    at, now, turn = clock.at, clock.now, Turn.DEVICE
    online = False

    def go_offline() -> None:
        roster.exclude(client, Reason.OFFLINE)
        drop_out(client)

    for start, end in available:  # asked for the next one only when the last is over, since it may go on
        if start > now:
            if online:
                go_offline()
                online = False
            yield at(start, turn)
            now = start
        if start == end:
            continue
        if not online:
            roster.readmit(client, Reason.OFFLINE)
            online = True
        if end == math.inf:
            return
        yield at(end, turn)
        now = end
    if online:
        go_offline()
    roster.leave_for_good(client)
