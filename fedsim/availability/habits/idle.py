"""When nobody uses a device: the screen has been off for long enough.

A person uses the screen uses_per_day exp(-spread z - spread^2 / 2) times in a day of 24 hours, z being their
propensity, at a rate that follows the hourly weights of the local clock. A use counts until `settle` after its end.
"""

from fedsim.availability.habits.bursts import Bursts
from fedsim.availability.habits.persons import Draw
from fedsim.population.distributions import distribution
from fedsim.scenario.habits import Idle

USE_AT_MOST = 3600.0


def uses(idle: Idle) -> Bursts:
    """Return the screen uses, each with the time after it in which the device is not yet idle."""
    law, settle, spread = distribution(idle.use), idle.settle, idle.spread
    return Bursts(Draw.USE, Draw.USE_LENGTH, idle.uses_per_day, tuple(idle.by_hour), law, USE_AT_MOST, settle, spread)
