"""When a device is available: half-open intervals of simulated time, one file for each kind."""

from fedsim.availability.kinds import kinds
from fedsim.availability.model import Intervals, available_at, between, conditions, intervals
from fedsim.availability.place import Place
from fedsim.population.propensity import propensity

__all__ = ["Intervals", "Place", "available_at", "between", "conditions", "intervals", "kinds", "propensity"]
