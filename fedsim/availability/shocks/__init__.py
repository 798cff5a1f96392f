"""Shocks: what takes many devices out at once, laid over the availability of each of them."""

from fedsim.availability.shocks.layers import check_shocks, describe, outages_of, server_outages
from fedsim.availability.shocks.outages import without
from fedsim.availability.shocks.shocked import Availability, ShockedAvailability, availability_of

__all__ = [
    "Availability",
    "ShockedAvailability",
    "availability_of",
    "check_shocks",
    "describe",
    "outages_of",
    "server_outages",
    "without",
]
