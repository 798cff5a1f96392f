"""Sets of instants as sorted half-open intervals of many devices at once, in flat arrays; and where their bulk lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import DAY_S

RESOLUTION_S = 1e-5
"""Intervals shorter than this are empty, and gaps shorter than this are closed: over centuries of simulated time
a float64 cannot tell their two ends apart."""
_T = TypeVar("_T", np.float64, np.int64)


@dataclass(frozen=True)
class Sets(Generic[_T]):
    """Half-open intervals [start, end) of devices 0..count-1, sorted by device and start, disjoint, none touching.

    Device d owns the intervals offsets[d]:offsets[d + 1]; times are seconds or whole milliseconds.
    """

    offsets: Ints
    starts: NDArray[_T]
    ends: NDArray[_T]

    def __len__(self) -> int:
        """Give the number of devices."""
        return len(self.offsets) - 1

    @cached_property
    def devices(self) -> Ints:
        """(n,) device of each interval."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def of(self, device: int) -> tuple[NDArray[_T], NDArray[_T]]:
        """Return the starts and the ends of one device."""
        own = slice(self.offsets[device], self.offsets[device + 1])
        return self.starts[own], self.ends[own]

    def where(self, keep: Bools) -> "Sets[_T]":
        """Return the intervals (n,) that are to be kept, of the same devices."""
        return self if keep.all() else union(self.devices[keep], self.starts[keep], self.ends[keep], len(self))[0]

    def near(
        self, devices: Ints, first: "float | Ints | Floats", last: "float | Ints | Floats"
    ) -> tuple[NDArray[np.intp], Ints]:
        """Return the position in `devices` and the row of every interval of some devices that touches [first, last].

        `devices` (n,); `first` and `last` are numbers, or of shape (n,).
        """
        (by_start, starts), (by_end, ends) = self._ranked
        shift = devices * np.int64(len(by_end) + 1)
        begin = ends.searchsorted(shift + by_end.searchsorted(first, side="left"))
        count = np.maximum(starts.searchsorted(shift + by_start.searchsorted(last, side="right")) - begin, 0)
        who = np.repeat(np.arange(len(devices)), count)
        return who, np.arange(len(who)) - np.repeat(np.cumsum(count) - count - begin, count)

    @cached_property
    def _ranked(self) -> list[tuple[NDArray[_T], Ints]]:
        """Starts and ends, sorted; and the rank of each, shifted by the device as in `union`."""
        shift = self.devices * np.int64(len(self.ends) + 1)
        return [(by := np.sort(times), shift + by.searchsorted(times)) for times in (self.starts, self.ends)]


Spans: TypeAlias = Sets[np.float64]
"""In seconds, as a trace has them."""
Moments: TypeAlias = Sets[np.int64]
"""In whole milliseconds, as simulated time has them."""


def union(
    devices: Ints, starts: NDArray[_T], ends: NDArray[_T], count: int, shortest: float = RESOLUTION_S
) -> tuple[Sets[_T], int, int]:
    """Merge intervals that overlap or touch: (n,) in any order, each start before its end, of `count` devices.

    Beside them it returns how many overlapped an earlier one, and how many only touched it. Gaps below `shortest` are
    closed. Sort by (device, start) and take the running maximum of the ends within each device, O(n log n). The maximum
    runs over the ranks of the ends, shifted by the device: integers, so that it is exact.
    """
    if not len(starts):
        return Sets(np.zeros(count + 1, dtype=np.int64), starts, ends), 0, 0
    order = np.lexsort((starts, devices))
    devices, starts, ends = devices[order], starts[order], ends[order]
    by_end = np.sort(ends)
    shift = devices * np.int64(len(ends) + 1)
    reach = by_end[np.maximum.accumulate(shift + np.searchsorted(by_end, ends)) - shift]
    same = devices[1:] == devices[:-1]
    before = reach[:-1]
    opens = np.concatenate([[True], ~same | (starts[1:] - before >= shortest)])
    overlapping = int((same & (starts[1:] < before)).sum())
    last = np.concatenate([np.flatnonzero(opens)[1:] - 1, [len(ends) - 1]])
    owners = devices[opens]
    offsets = np.searchsorted(owners, np.arange(count + 1)).astype(np.int64)
    return Sets(offsets, starts[opens], reach[last]), overlapping, int((~opens).sum()) - overlapping


def intersection(sets: Sequence[Sets[_T]]) -> Sets[_T]:
    """Return the instants that lie in every one of some sets over the same devices.

    A sweep: +1 at each start, -1 at each end; all sets hold where the running sum is their number.
    """
    if len(sets) == 1:
        return sets[0]
    count = len(sets[0])
    devices = np.concatenate([spans.devices for spans in sets] * 2)
    instants = np.concatenate([spans.starts for spans in sets] + [spans.ends for spans in sets])
    steps = np.repeat([1, -1], len(instants) // 2)
    # At one instant the ends come first, so that intervals which only touch do not overlap.
    order = np.lexsort((steps, instants, devices))
    devices, instants = devices[order], instants[order]
    whole = np.flatnonzero(np.cumsum(steps[order]) == len(sets))
    starts, ends = instants[whole], instants[whole + 1]
    real = ends - starts >= RESOLUTION_S
    return union(devices[whole][real], starts[real], ends[real], count)[0]


def difference(whole: Spans, less: Spans) -> Spans:
    """Return the instants of one set that are not in another over the same devices."""
    places = less.offsets + np.arange(len(less) + 1)
    rest = np.insert(less.ends, less.offsets[:-1], -np.inf), np.insert(less.starts, less.offsets[1:], np.inf)
    return intersection([whole, Sets(places, *rest)])


def clip(spans: Spans, since: float, until: float) -> Spans:
    """Keep what lies in [since, until)."""
    starts, ends = np.maximum(spans.starts, since), np.minimum(spans.ends, until)
    real = ends - starts >= RESOLUTION_S
    return union(spans.devices[real], starts[real], ends[real], len(spans))[0]


def select(spans: Spans, keep: Bools) -> Spans:
    """Return the set of the kept devices alone, renumbered in their order."""
    new = np.cumsum(keep) - 1
    devices = spans.devices
    own = keep[devices]
    return union(new[devices[own]], spans.starts[own], spans.ends[own], int(keep.sum()))[0]


_TAIL = 0.1
_LEAST_GAP_S = DAY_S


class Extent(NamedTuple):
    """Where a trace begins and ends in seconds, times far from all others left out.

    `stray` counts the intervals with such a time, `outside` those before or after the part that was asked for; `kept`
    are the other intervals of each condition, and `seen` when each device was observed within the part.
    """

    first: float
    last: float
    stray: int
    outside: int
    kept: list[Spans]
    seen: Spans


def extent(
    parts: Sequence[Spans], since: float | None = None, until: float | None = None, windows: Floats | None = None
) -> Extent:
    """Return where the bulk of a trace lies, from the intervals of each condition (at least one interval).

    The bulk of the starts and ends is what lies between their 10 % and 90 % quantiles. Outwards from there the trace
    goes on up to the first gap without any start or end that is longer than the bulk, and than a day. Up to a tenth of
    the times may be cut off in this way on each side; below eleven times, none. `since` and `until` choose a part: an
    interval with a time far from all others and outside of that part stays left out.

    `windows` (devices, 2 or more) are when each device was observed, from and to, NaN where it is unknown. They count
    as times; where one is far from all others, the device's own first start or last end takes its place.
    """
    count = len(parts[0])
    windows = np.full((count, 2), np.nan) if windows is None else windows[:, :2]
    times = np.concatenate([column for part in parts for column in (part.starts, part.ends)])
    first, last = bulk(np.concatenate([times, windows[np.isfinite(windows)]]))
    begin, end = (first if since is None else min(first, since)), (last if until is None else max(last, until))
    low, high = (-np.inf if since is None else since), (np.inf if until is None else until)
    kept, stray, outside = list[Spans](), 0, 0
    for part in parts:
        other = (part.ends <= low) | (part.starts >= high)
        far = ~other & ((part.starts < begin) | (part.ends > end))
        kept.append(part.where(~(other | far)))
        stray, outside = stray + int(far.sum()), outside + int(other.sum())
    windows = np.where((windows < begin) | (windows > end), [[np.inf, -np.inf]], windows)
    if stray:  # what the stray intervals had inside of the bulk is gone with them
        near = windows[np.isfinite(windows)]
        first = min(float(each.min(initial=np.inf)) for each in (near, *(part.starts for part in kept)))
        last = max(float(each.max(initial=-np.inf)) for each in (near, *(part.ends for part in kept)))
    first, last = (first if since is None else since), (last if until is None else until)
    opened, closed = np.full(count, np.inf), np.full(count, -np.inf)
    for part in kept:
        np.minimum.at(opened, part.devices, part.starts)
        np.maximum.at(closed, part.devices, part.ends)
    opened = np.where(windows[:, 0] == np.inf, opened, np.nan_to_num(windows[:, 0], nan=first))
    closed = np.where(windows[:, 1] == -np.inf, closed, np.nan_to_num(windows[:, 1], nan=last))
    seen = clip(Spans(np.arange(count + 1), opened, closed), first, last)
    return Extent(first, last, stray, outside, kept, seen)


def bulk(times: Floats) -> tuple[float, float]:
    """Return the first and the last of some times, at least one, those far from all others left out; see `extent`."""
    rank = int(_TAIL * (len(times) - 1))
    ranks = [rank, len(times) - 1 - rank]
    left, right = np.partition(times, sorted(set(ranks)))[ranks].tolist()
    gap = max(right - left, _LEAST_GAP_S)
    return -_outermost(-times, -left, gap), _outermost(times, right, gap)


def _outermost(times: Floats, inner: float, gap: float) -> float:
    """Return the last time before the first gap that is too long, from `inner` on."""
    if float(times.max()) - inner <= gap:
        return float(times.max())
    outer = np.append(inner, np.sort(times[times > inner]))
    cut = np.flatnonzero(np.diff(outer) > gap)
    return float(outer[cut[0]] if len(cut) else outer[-1])
