"""Why a client is not eligible: the vocabulary that availability, the simulation and the log's gauges share."""

from enum import IntFlag
from typing import Final


class Reason(IntFlag):
    """What speaks against a client, as bits of a mask; a client without any is eligible.

    The first five are about its device, which is available without any of them.
    """

    NO_CHARGER = 1
    NO_NETWORK = 2
    IN_USE = 4
    UNAVAILABLE = 8
    """By a model that does not tell conditions apart."""
    SHOCK = 16
    IN_SESSION = 32
    SEPARATION = 64
    COOLDOWN = 128
    """The part of the cool-down that is wall-clock time."""
    SPENT = 256
    """It has taken part as often as it may."""
    GONE = 512
    """Its device will never be available again."""
    NOT_CONNECTED = 1024
    """It has not come to a server at which devices check in."""


OF_DEVICES: Final = Reason.NO_CHARGER | Reason.NO_NETWORK | Reason.IN_USE | Reason.UNAVAILABLE | Reason.SHOCK
"""Reasons that keep a device from being available."""
REASON_OF: Final = {
    "charging": Reason.NO_CHARGER,
    "network": Reason.NO_NETWORK,
    "idle": Reason.IN_USE,
    "available": Reason.UNAVAILABLE,
    "reachable": Reason.SHOCK,
}
"""The reason against a device while a condition, by its name, does not hold."""
