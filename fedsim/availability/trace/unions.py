"""Sets of instants as sorted half-open intervals of many devices at once, in flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.trace.faults import RESOLUTION_S
from fedsim.common.arrays import Bools, Ints

T = TypeVar("T", np.float64, np.int64)


@dataclass(frozen=True)
class Sets(Generic[T]):
    """Half-open intervals [start, end) of devices 0..count-1, sorted by device and start, disjoint, none touching.

    Attributes
    ----------
    offsets
        (count + 1,) device d owns the intervals offsets[d]:offsets[d + 1].
    starts, ends
        (n,) seconds, or whole milliseconds.
    """

    offsets: Ints
    starts: NDArray[T]
    ends: NDArray[T]

    def __len__(self) -> int:
        """Give the number of devices."""
        return len(self.offsets) - 1

    @cached_property
    def devices(self) -> Ints:
        """(n,) device of each interval."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def of(self, device: int) -> tuple[NDArray[T], NDArray[T]]:
        """Return the starts and the ends of one device."""
        own = slice(self.offsets[device], self.offsets[device + 1])
        return self.starts[own], self.ends[own]

    def near(self, devices: Ints, first: float, last: float) -> tuple[NDArray[np.intp], Ints]:
        """Return the place in `devices` and the row of every interval of some devices that touches [first, last]."""
        (by_start, starts), (by_end, ends) = self._ranked
        shift = devices * np.int64(len(by_end) + 1)
        begin = ends.searchsorted(shift + by_end.searchsorted(first, side="left"))
        count = np.maximum(starts.searchsorted(shift + by_start.searchsorted(last, side="right")) - begin, 0)
        who = np.repeat(np.arange(len(devices)), count)
        return who, np.arange(len(who)) - np.repeat(np.cumsum(count) - count - begin, count)

    @cached_property
    def _ranked(self) -> list[tuple[NDArray[T], Ints]]:
        """Starts and ends, sorted; and the rank of each, shifted by the device as in `union`."""
        shift = self.devices * np.int64(len(self.ends) + 1)
        return [(by := np.sort(times), shift + by.searchsorted(times)) for times in (self.starts, self.ends)]


Spans: TypeAlias = Sets[np.float64]
"""In seconds, as a trace has them."""
Moments: TypeAlias = Sets[np.int64]
"""In whole milliseconds, as simulated time has them."""


class Joined(NamedTuple):
    """How many intervals `union` put together: those that overlapped an earlier one, and those that only touched it."""

    overlapping: int
    touching: int


def union(
    devices: Ints, starts: NDArray[T], ends: NDArray[T], count: int, shortest: float = RESOLUTION_S
) -> tuple[Sets[T], Joined]:
    """Merge intervals that overlap or touch.

    Parameters
    ----------
    devices, starts, ends
        (n,) in any order, each start before its end.
    count
        Number of devices.
    shortest
        Gaps below this length are closed.

    Notes
    -----
    Sort by (device, start) and take the running maximum of the ends within each device, O(n log n). The maximum runs
    over the ranks of the ends, shifted by the device: integers, so that it is exact.
    """
    if not len(starts):
        return Sets(np.zeros(count + 1, dtype=np.int64), starts, ends), Joined(0, 0)
    order = np.lexsort((starts, devices))
    devices, starts, ends = devices[order], starts[order], ends[order]
    by_end = np.sort(ends)
    shift = devices * np.int64(len(ends) + 1)
    reach = by_end[np.maximum.accumulate(shift + np.searchsorted(by_end, ends)) - shift]
    same = devices[1:] == devices[:-1]
    before = reach[:-1]
    opens = np.concatenate([[True], ~same | (starts[1:] - before >= shortest)])
    overlapping = int((same & (starts[1:] < before)).sum())
    joined = Joined(overlapping, int((~opens).sum()) - overlapping)
    last = np.concatenate([np.flatnonzero(opens)[1:] - 1, [len(ends) - 1]])
    owners = devices[opens]
    offsets = np.searchsorted(owners, np.arange(count + 1)).astype(np.int64)
    return Sets(offsets, starts[opens], reach[last]), joined


def intersection(sets: Sequence[Sets[T]]) -> Sets[T]:
    """Return the instants that lie in every one of some sets over the same devices.

    A sweep: +1 at each start, -1 at each end, and where the running sum is the number of sets, all of them hold.
    """
    if len(sets) == 1:
        return sets[0]
    count = len(sets[0])
    devices = np.concatenate([spans.devices for spans in sets] * 2)
    instants = np.concatenate([spans.starts for spans in sets] + [spans.ends for spans in sets])
    steps = np.repeat([1, -1], len(instants) // 2)
    # At one instant the ends come first: then the sum never counts a moment that is no moment.
    order = np.lexsort((steps, instants, devices))
    devices, instants = devices[order], instants[order]
    whole = np.flatnonzero(np.cumsum(steps[order]) == len(sets))
    starts, ends = instants[whole], instants[whole + 1]
    real = ends - starts >= RESOLUTION_S
    return union(devices[whole][real], starts[real], ends[real], count)[0]


def clip(spans: Spans, since: float, until: float) -> Spans:
    """Keep what lies in [since, until)."""
    starts, ends = np.maximum(spans.starts, since), np.minimum(spans.ends, until)
    real = ends - starts >= RESOLUTION_S
    return union(spans.devices[real], starts[real], ends[real], len(spans))[0]


def select(spans: Spans, keep: Bools) -> Spans:
    """Return the set of the kept devices alone, numbered anew in their order."""
    new = np.cumsum(keep) - 1
    devices = spans.devices
    own = keep[devices]
    return union(new[devices[own]], spans.starts[own], spans.ends[own], int(keep.sum()))[0]
