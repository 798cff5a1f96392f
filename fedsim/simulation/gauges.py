"""Whom the gauges count: everyone, or in a large population evenly spaced clients of each cell."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import simpy

from fedsim.common.arrays import Ints
from fedsim.simulation.clock import Turn
from fedsim.simulation.federation import Federation


@dataclass(frozen=True)
class Sample:
    """Clients (n,) that stand for all, None for everyone; with the size of each cell, and how many of it are in."""

    clients: Ints | None
    sizes: Ints
    taken: Ints

    def scaled(self, counts: Ints) -> Ints:
        """Return what counts (..., cells) in the sample say of the whole cells, to the nearest client."""
        return (2 * counts * self.sizes + self.taken) // (2 * self.taken)


def sample(cell: Ints, most: int | None) -> Sample:
    """Choose whom to count.

    `cell` (N,) is the cell of each client; `most` clients are chosen, or everyone where it is None. They are spread
    evenly over the cells, and what a small cell does not need goes to the others; each has one at least.
    """
    sizes = np.bincount(cell)
    if most is None or len(cell) <= most:
        return Sample(None, sizes, sizes)
    taken, left = np.empty_like(sizes), most
    for rank, each in enumerate(np.argsort(sizes, kind="stable").tolist()):
        taken[each] = min(int(sizes[each]), max(1, left // (len(sizes) - rank)))
        left -= int(taken[each])
    firsts, order = np.cumsum(sizes) - sizes, np.argsort(cell, kind="stable")
    number = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
    spaced = (2 * number + 1) * np.repeat(sizes, taken) // (2 * np.repeat(taken, taken))
    return Sample(np.sort(order[np.repeat(firsts, taken) + spaced]), sizes, taken)


def gauge(world: Federation, cell: Ints, every: int, most: int | None) -> Generator[simpy.Event, None, None]:
    """Count the population every so many milliseconds; the other parameters are those of `sample`."""
    counted = sample(cell, most)
    while True:
        yield world.clock.at(world.recorder.ticks * every, Turn.GAUGE)
        available, eligible, *against = counted.scaled(world.roster.counts(counted.clients))
        world.recorder.gauge(world.clock.now, np.array([available, eligible, world.roster.in_session(), *against]))
