"""Where the bulk of a trace lies, and what is far from it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.availability.spells import Spells
from fedsim.common.arrays import Floats
from fedsim.common.instants import DAY_S, each_to_ms, to_ms

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
    kept: list[Spells]
    seen: Spells


def extent(
    parts: Sequence[Spells], since: float | None = None, until: float | None = None, windows: Floats | None = None
) -> Extent:
    """Return where the bulk of a trace lies, from the intervals of each condition (at least one interval).

    The bulk of the starts and ends is what lies between their 10 % and 90 % quantiles. Outwards from there the trace
    goes on up to the first gap without any start or end that is longer than the bulk, and than a day. Up to a tenth of
    the times may be cut off in this way on each side; below eleven times, none. `since` and `until` choose a part: an
    interval with a time far from all others and outside of that part stays left out.

    `windows` (devices, 2 or more) are when each device was observed, from and to, NaN where it is unknown. They count
    as times; where one is far from all others, the device's own first start or last end takes its place.
    """
    count = parts[0].count
    windows = np.full((count, 2), np.nan) if windows is None else windows[:, :2]
    times = np.concatenate([column for part in parts for column in (part.starts_s, part.ends_s)])
    first, last = bulk(np.concatenate([times, windows[np.isfinite(windows)]]))
    begin, end = (first if since is None else min(first, since)), (last if until is None else max(last, until))
    low, high = (-np.inf if since is None else since), (np.inf if until is None else until)
    kept, stray, outside = list[Spells](), 0, 0
    for part in parts:
        other = (part.ends_s <= low) | (part.starts_s >= high)
        far = ~other & ((part.starts_s < begin) | (part.ends_s > end))
        kept.append(part.where(~(other | far)))
        stray, outside = stray + int(far.sum()), outside + int(other.sum())
    windows = np.where((windows < begin) | (windows > end), [[np.inf, -np.inf]], windows)
    if stray:  # what the stray intervals had inside of the bulk is gone with them
        near = windows[np.isfinite(windows)]
        first = min(float(each.min(initial=np.inf)) for each in (near, *(part.starts_s for part in kept)))
        last = max(float(each.max(initial=-np.inf)) for each in (near, *(part.ends_s for part in kept)))
    first, last = (first if since is None else since), (last if until is None else until)
    opened, closed = np.full(count, np.inf), np.full(count, -np.inf)
    for part in kept:
        np.minimum.at(opened, part.who, part.starts_s)
        np.maximum.at(closed, part.who, part.ends_s)
    opened = np.where(windows[:, 0] == np.inf, opened, np.nan_to_num(windows[:, 0], nan=first))
    closed = np.where(windows[:, 1] == -np.inf, closed, np.nan_to_num(windows[:, 1], nan=last))
    seen = Spells(np.arange(count), each_to_ms(opened), each_to_ms(closed), count).clip(to_ms(first), to_ms(last))
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
