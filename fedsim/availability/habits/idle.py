"""When nobody uses a device: the screen has been off for long enough.

A person uses the screen uses_per_day exp(-spread z - spread^2 / 2) times in a day of 24 hours, z being their
propensity, at a rate that follows the hourly weights of the local clock. A use counts until `settle` after its end.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.habits.bursts import Bursts, hourly
from fedsim.availability.habits.persons import Draw
from fedsim.common.keyed import Stream
from fedsim.population.propensity import propensity
from fedsim.scenario.habits import Idle

USE_AT_MOST = 3600.0


def uses(idle: Idle, clients: NDArray[np.int64], draws: Stream) -> Bursts:
    """Return the screen uses of some persons, each with the time after it in which the device is not yet idle."""
    factor = np.exp(-idle.spread * propensity(clients, draws) - idle.spread**2 / 2)
    rates = hourly(idle.uses_per_day * factor, idle.by_hour)
    return Bursts(Draw.USE, Draw.USE_LENGTH, rates, idle.use, USE_AT_MOST, idle.settle)
