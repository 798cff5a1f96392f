"""The processes of devices: one for each condition that a device must meet, and one for those that leave for good."""

from collections.abc import Callable, Generator

import simpy

from fedsim.availability.model import Pieces
from fedsim.availability.population import PopulationAvailability
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.roster import GONE, Roster


def condition(
    clock: Clock, roster: Roster, client: int, holds: Pieces, without: int, drop_out: Callable[[int], None]
) -> Generator[simpy.Event, None, None]:
    """Follow one condition of a client's device: its charger, its network, its screen, or that no shock has it out.

    `holds` says when the condition holds, as `AvailabilityModel.intervals` does, in milliseconds; otherwise there is
    the reason `without` against the client, as there is at first. When the condition ends, `drop_out` is called with
    the client: its running session drops out.
    """
    there = False
    for start, end in holds:
        if start > clock.now:  # otherwise it goes on
            if there:
                roster.hold(client, without)
                drop_out(client)
                there = False
            yield clock.at(start, Turn.DEVICE)
        if end > clock.now:
            if not there:
                roster.lift(client, without)
                there = True
            if end >= FOREVER:
                return
            yield clock.at(end, Turn.DEVICE)
    if there:
        roster.hold(client, without)
        drop_out(client)


def departures(
    clock: Clock, roster: Roster, availability: PopulationAvailability, clients: Ints, horizon: int
) -> Generator[simpy.Event, None, None]:
    """Note which clients will never be available again, and wake a waiting server each time.

    `clients` (n,) are those whose devices may leave for good; they are followed up to `horizon`.
    """
    while len(clients):
        until = max(clock.now, min(clock.now + DAY, horizon))
        availability.at(clients, clock.now)  # models that are followed step by step go on to here, for `leaves`
        leaves = availability.leaves(clients, clock.now, until)
        for instant, client in sorted(zip(leaves.tolist(), clients.tolist(), strict=True)):
            if instant > until:
                break
            yield clock.at(instant, Turn.DEVICE)
            roster.hold(client, GONE)
            roster.wake()
        if until >= horizon:
            return
        clients = clients[leaves > until]
        yield clock.at(until, Turn.DEVICE)
