"""Which part of a trace its times cover, when a few of them are far from all others."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.availability.trace.unions import Spans, union
from fedsim.common.arrays import Floats

_TAIL = 0.1
_LEAST_GAP_S = 7 * 86_400.0


class Extent(NamedTuple):
    """Where a trace begins and ends.

    Attributes
    ----------
    first, last
        Its first start and its last end in seconds, those far from all others left out.
    stray
        How many intervals have a time that is left out.
    kept
        The other intervals of each condition.
    """

    first: float
    last: float
    stray: int
    kept: list[Spans]


def extent(parts: Sequence[Spans], since: float | None = None, until: float | None = None) -> Extent:
    """Return where the bulk of a trace lies.

    The bulk of the starts and ends is what lies between their 10 % and 90 % quantiles. Outwards from there the trace
    goes on up to the first gap without any start or end that is longer than the bulk, and than a week. Up to a tenth of
    the times may be cut off in this way on each side; below eleven times, none.

    Parameters
    ----------
    parts
        The intervals of each condition; at least one interval.
    since, until
        A begin or an end that is given; nothing is cut off on that side.
    """
    times = np.concatenate([column for part in parts for column in (part.starts, part.ends)])
    first, last = bulk(times)
    # A side that is given cuts intervals, and makes none of them stray.
    begin, end = (first if since is None else -np.inf), (last if until is None else np.inf)
    kept = [_inside(part, begin, end) for part in parts]
    stray = sum(len(part.starts) for part in parts) - sum(len(part.starts) for part in kept)
    if stray:  # what the stray intervals had inside of the bulk is gone with them
        first = min(float(part.starts.min(initial=np.inf)) for part in kept)
        last = max(float(part.ends.max(initial=-np.inf)) for part in kept)
    return Extent(first if since is None else since, last if until is None else until, stray, kept)


def bulk(times: Floats) -> tuple[float, float]:
    """Return the first and the last of some times, at least one, those far from all others left out; see `extent`."""
    rank = int(_TAIL * (len(times) - 1))
    ranks = [rank, len(times) - 1 - rank]
    left, right = np.partition(times, sorted(set(ranks)))[ranks].tolist()
    gap = max(right - left, _LEAST_GAP_S)
    return -_outermost(-times, -left, gap), _outermost(times, right, gap)


def _inside(spans: Spans, begin: float, end: float) -> Spans:
    keep = (spans.starts >= begin) & (spans.ends <= end)
    return spans if keep.all() else union(spans.devices[keep], spans.starts[keep], spans.ends[keep], len(spans))[0]


def _outermost(times: Floats, inner: float, gap: float) -> float:
    """Return the last time before the first gap that is too long, from `inner` on."""
    if float(times.max()) - inner <= gap:
        return float(times.max())
    outer = np.append(inner, np.sort(times[times > inner]))
    cut = np.flatnonzero(np.diff(outer) > gap)
    return float(outer[cut[0]] if len(cut) else outer[-1])
