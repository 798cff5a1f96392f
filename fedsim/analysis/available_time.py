"""For which share of a run each device was available, by its availability model, not as the rounds observed it."""

from dataclasses import dataclass

import numpy as np

from fedsim.availability.population import Strata, strata
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY, to_ms
from fedsim.population import Population
from fedsim.scenario import Scenario

_MOST = 5_000  # devices that are followed, where there are more
_MOST_DEVICE_DAYS = 200_000.0
_FEWEST = 200
_LONGEST, _WINDOW = 1_000 * DAY, 7 * DAY


@dataclass(frozen=True)
class AvailableTime:
    """The share of the time, (n,), for which devices were available: of the first 1,000 days of a longer run.

    `clients`, (n,), are the devices in order: all, or evenly spaced ones of a large population.
    """

    clients: Ints
    share: Floats


def available_time(
    scenario: Scenario, population: Population, ended_s: float, replicate: int = 0, devices: Strata | None = None
) -> AvailableTime | None:
    """Work out for which share of the run each device was available, shocks included.

    Of more than 5,000 devices, or 200,000 device-days, evenly spaced ones are followed, 200 at least. None is returned
    where every device was always available, or no time passed.
    """
    longest = min(to_ms(ended_s), _LONGEST)
    if scenario.always_available or longest <= 0:
        return None
    size = len(population)
    taken = min(size, _MOST, max(_FEWEST, int(_MOST_DEVICE_DAYS * DAY / longest)))
    clients = (2 * np.arange(taken) + 1) * size // (2 * taken)
    availability = availability_of(scenario, devices or strata(scenario, population), replicate)
    total = np.zeros(taken)
    for since in range(0, longest, _WINDOW):
        spells = availability.spells(clients, since, min(since + _WINDOW, longest))
        total += np.bincount(spells.who, weights=spells.ends - spells.starts, minlength=taken)
    return AvailableTime(clients, total / longest)
