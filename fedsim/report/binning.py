"""Many values made few enough to draw: neighbours become their mean, least and greatest value."""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats, Ints

POINTS = 160  # at most so many points of one line: about three pixels each in the page


@dataclass(frozen=True)
class Binned:
    """Values along x in bins of neighbours; every array has one entry a bin."""

    first: Floats  # x of the first value in the bin
    last: Floats  # x of the last value in the bin
    mean: Floats  # of the values in the bin
    low: Floats  # the least of them
    high: Floats  # the greatest of them
    size: int  # values in the largest bin: 1 where nothing was averaged

    @property
    def x(self) -> Floats:
        """The middle of each bin."""
        return (self.first + self.last) / 2


def edges(count: int, bins: int = POINTS, geometric: bool = False) -> Ints:
    """Cut ``0..count`` into at most so many non-empty bins: where each starts, and at the end `count`.

    With `geometric`, bins grow by a constant factor, the first ones being single values: for a logarithmic axis.
    """
    if count <= bins:
        return np.arange(count + 1, dtype=np.int64)
    if geometric:
        grown = np.rint(np.geomspace(1, count + 1, bins + 1)).astype(np.int64) - 1
        return np.unique(grown)
    return np.linspace(0, count, bins + 1).astype(np.int64)


def binned(x: Floats, y: Floats, cuts: Ints) -> Binned:
    """Bin y along x (sorted, finite, as long as the last cut says) between the cuts."""
    if len(x) == 0:
        nothing = np.empty(0)
        return Binned(nothing, nothing, nothing, nothing, nothing, 0)
    starts, sizes = cuts[:-1], np.diff(cuts)
    return Binned(
        first=x[starts],
        last=x[cuts[1:] - 1],
        mean=np.add.reduceat(y, starts) / sizes,
        low=np.minimum.reduceat(y, starts),
        high=np.maximum.reduceat(y, starts),
        size=int(sizes.max()),
    )
