"""How available the person behind a device makes it: one score, that habits go by and other quantities may go with."""

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream

INDEX = 1 << 48
"""Index of the score among a client's draws for availability."""


def propensity(clients: Ints, draws: Stream) -> Floats:
    """Return how available each device is by habit: a standard normal score.

    Devices of high score charge on more days, have an unmetered network more often, and are used less often. All else
    about a person is independent of it.

    Parameters
    ----------
    clients
        Indices of devices.
    draws
        The stream for availability.
    """
    return draws.normals(clients, INDEX)
