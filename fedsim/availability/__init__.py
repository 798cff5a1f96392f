"""When a device is available: half-open intervals of simulated time, one file or folder for each model."""

from fedsim.availability.civil import Day, Place
from fedsim.availability.kinds import MODELS, availability_models, build_model, open_models
from fedsim.availability.model import AvailabilityModel, Intervals, available_at, between, conditions, intervals
from fedsim.population.sources import propensity

__all__ = [
    "MODELS",
    "AvailabilityModel",
    "Day",
    "Intervals",
    "Place",
    "availability_models",
    "available_at",
    "between",
    "build_model",
    "conditions",
    "intervals",
    "open_models",
    "propensity",
]
