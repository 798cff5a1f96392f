"""The processes of devices: one for each condition that a device must meet, and one for those that leave for good."""

from collections.abc import Callable, Generator

import simpy

from fedsim.availability.batch import Clients
from fedsim.availability.model import Pieces
from fedsim.availability.population import PopulationAvailability
from fedsim.common.instants import DAY, FOREVER
from fedsim.simulation.clock import Clock, Turn
from fedsim.simulation.processes.roster import GONE, Roster


def condition(
    clock: Clock, roster: Roster, client: int, holds: Pieces, without: int, drop_out: Callable[[int], None]
) -> Generator[simpy.Event, None, None]:
    """Follow one condition of a device: its charger, its network, its screen, or that no shock has it out.

    Parameters
    ----------
    clock, roster
        Those of the simulation.
    client
        Whose device it is.
    holds
        When the condition holds, as `AvailabilityModel.intervals` has it, in milliseconds.
    without
        The reason against the client while it does not; it stands at first.
    drop_out
        Called with the client when the condition ends: its running session drops out.
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
    clock: Clock, roster: Roster, availability: PopulationAvailability, clients: Clients, horizon: int
) -> Generator[simpy.Event, None, None]:
    """Note who will never be available again, and let a waiting server see whether it waits in vain.

    Parameters
    ----------
    clock, roster, availability
        Those of the simulation.
    clients
        (n,) those whose devices may leave for good.
    horizon
        When the run is stopped; nobody is followed beyond it.
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
