"""A device: the process by which it becomes available and unavailable."""

import math
from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

from fedsim.availability import Intervals
from fedsim.simulation.clock import Turn
from fedsim.simulation.processes.roster import Bar

if TYPE_CHECKING:
    from fedsim.simulation.processes.world import World


def device(world: "World", client: int, available: Intervals) -> Generator[simpy.Event, None, None]:
    """Follow one device through its available intervals; a running session drops out when one ends."""
    at, roster, now, turn = world.clock.at, world.roster, world.clock.now, Turn.DEVICE
    online = False
    for start, end in available:  # asked for the next one only when the last is over, since it may go on
        if start > now:
            if online:
                _go_offline(world, client)
                online = False
            yield at(start, turn)
            now = start
        if start == end:
            continue
        if not online:
            roster.clear(client, Bar.OFFLINE)
            online = True
        if end == math.inf:
            return
        yield at(end, turn)
        now = end
    if online:
        _go_offline(world, client)
    roster.leave_for_good(client)


def _go_offline(world: "World", client: int) -> None:
    world.roster.bar(client, Bar.OFFLINE)
    if client in world.sessions:
        world.sessions[client].cut("dropped")


def cooldown(world: "World", client: int, until_s: float) -> Generator[simpy.Event, None, None]:
    """Keep one client out until an instant: the wall-clock part of its cool-down."""
    world.roster.bar(client, Bar.COOLDOWN)
    world.resting[client] = until_s
    yield world.clock.at(until_s, Turn.DEVICE)
    del world.resting[client]
    world.roster.clear(client, Bar.COOLDOWN)
