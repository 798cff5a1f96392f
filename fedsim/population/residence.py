"""Who lives where: the clients of each group, time zone by time zone."""

from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.population.columns import Population


class Residence(NamedTuple):
    """Clients of one group that live in one time zone: k of them occur, in the order of groups.

    Attributes
    ----------
    group, zone
        (k,) indices into the population's names of groups and of time zones.
    of_client
        (N,) which of them each client belongs to.
    """

    group: Ints
    zone: Ints
    of_client: Ints


def residence(population: Population) -> Residence:
    """Return the pairs of group and time zone that occur."""
    group, zone = population.group, population.zone.astype(np.int64)
    changes = np.flatnonzero((group[1:] != group[:-1]) | (zone[1:] != zone[:-1])) + 1
    if len(changes) == int(group[-1]):  # only where a group begins: nothing need be sorted
        first = np.concatenate([[0], changes])
        return Residence(group[first], zone[first], group)
    zones = len(population.zone_names)
    pairs, of_client = np.unique(group * zones + zone, return_inverse=True)
    return Residence(pairs // zones, pairs % zones, of_client.astype(np.int64, copy=False))
