"""Shocks: what takes many devices out at once, laid over the availability of each of them."""

from fedsim.availability.shocks.layers import check_shocks, describe, outages_of, server_outages
from fedsim.availability.shocks.shocked import ShockedAvailability, availability_of

__all__ = [
    "ShockedAvailability",
    "availability_of",
    "check_shocks",
    "describe",
    "outages_of",
    "server_outages",
]
