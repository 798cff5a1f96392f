"""The availability of all devices with shocks laid over it: what the engines ask."""

from dataclasses import dataclass

import numpy as np

from fedsim.availability.batch import Clients, Mask, Reasons, Spells
from fedsim.availability.cells import Cells
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.availability.shocks.layers import outages_of
from fedsim.availability.shocks.outages import Outages, without
from fedsim.common.arrays import Ints
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import Reason
from fedsim.scenario import Scenario


@dataclass(eq=False)
class ShockedAvailability(PopulationAvailability):
    """The availability of all devices without the times at which shocks take them out; answers as a `Batch` does.

    Attributes
    ----------
    outages
        What takes the devices out. The other attributes are those of the devices by themselves.
    """

    outages: Outages

    @property
    def may_leave(self) -> Mask:
        """(N,) whose device may become unavailable for good."""
        return super().may_leave | self.outages.ever

    def at(self, clients: Clients, instant: int) -> Mask:
        """Say of each client whether it is available."""
        answer = super().at(clients, instant)
        answer[answer] = ~self.outages.at(clients[answer], instant)
        return answer

    def reasons(self, clients: Clients, instant: int) -> Reasons:
        """Return all that keeps each client from being available."""
        found = super().reasons(clients, instant)
        found[self.outages.at(clients, instant)] |= int(Reason.SHOCK)
        return found

    def ends(self, clients: Clients, instant: int, until: Ints) -> Ints:
        """Return for each of some clients that are available the end of that time, if it is not after `until`."""
        found = super().ends(clients, instant, until)
        if len(clients):
            who, starts, _ = self.outages.spells(clients, instant, int(until.max()) + 1)
            in_time = starts <= until[who]
            np.minimum.at(found, who[in_time], starts[in_time])
        return found

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Return when the clients are available within [since, until)."""
        found, out = super().spells(clients, since, until), self.outages.spells(clients, since, until)
        return without(found, out, len(clients)) if len(out.who) else found

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:
        """Return from when each client is never available again, `FOREVER` after `until`.

        That is known when its own life or a shock takes it out for good, even if another shock has it out before.
        """
        for_good = self.outages.for_good(clients, until)
        return np.minimum(super().leaves(clients, since, until), np.maximum(for_good, since))


def availability_of(scenario: Scenario, devices: Cells, replicate: int) -> PopulationAvailability:
    """Return when all devices of a scenario without mistakes are available in one replicate."""
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    lives = population_availability(devices.models, devices.places, devices.of_client, draws)
    outages = outages_of(scenario, devices, replicate)
    if outages is None:
        return lives
    return ShockedAvailability(lives.batches, lives.of_cell, lives.cell, outages)
