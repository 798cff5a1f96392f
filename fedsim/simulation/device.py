"""A device: the process by which it becomes available and unavailable."""

import math
from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

from fedsim.availability import Intervals
from fedsim.simulation.clock import Turn
from fedsim.simulation.roster import Bar

if TYPE_CHECKING:
    from fedsim.simulation.world import World


def device(world: "World", client: int, available: Intervals) -> Generator[simpy.Event, None, None]:
    """Follow one device through its available intervals; a running session drops out when one ends."""
    clock, roster = world.clock, world.roster
    online = False
    for start, end in available:  # asked for the next one only when the last is over, since it may go on
        if online and start > clock.now:
            _go_offline(world, client)
            online = False
        if start > clock.now:
            yield clock.at(start, Turn.DEVICE)
        if start == end:
            continue
        if not online:
            roster.clear(client, Bar.OFFLINE)
            online = True
        if math.isinf(end):
            return
        yield clock.at(end, Turn.DEVICE)
    if online:
        _go_offline(world, client)
    roster.leave_for_good(client)


def _go_offline(world: "World", client: int) -> None:
    world.roster.bar(client, Bar.OFFLINE)
    session = world.sessions.get(client)
    if session is not None:
        session.cut("dropped")


def cooldown(world: "World", client: int, until_s: float) -> Generator[simpy.Event, None, None]:
    """Keep one client out until an instant: the wall-clock part of its cool-down."""
    world.roster.bar(client, Bar.COOLDOWN)
    world.resting[client] = until_s
    yield world.clock.at(until_s, Turn.DEVICE)
    del world.resting[client]
    world.roster.clear(client, Bar.COOLDOWN)
