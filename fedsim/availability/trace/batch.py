"""Many devices of a trace at once: the few intervals that matter, found by bisection in the lap."""

import math
from collections.abc import Iterator
from copy import copy

import numpy as np

from fedsim.availability.batch import Batch, Clients, Floats, Mask, Spells, joined, together
from fedsim.availability.offsets import offset_pieces
from fedsim.availability.place import Place
from fedsim.availability.trace.recorded import RecordedAvailability, origin_of, shift_of
from fedsim.common.keyed import Stream


class RecordedBatch(Batch):
    """Clients that live by a trace in one place.

    Parameters
    ----------
    trace
        The trace of the group.
    place
        When simulated time begins, and the clients' time zone.
    draws
        The stream for availability.
    """

    follows = False

    def __init__(self, trace: RecordedAvailability, place: Place, draws: Stream) -> None:
        self._trace, self._place, self._draws = trace, place, draws
        spans, lap = trace.pattern.spans, trace.pattern.lap
        self._reach = lap if math.isfinite(lap) else float(spans.ends.max(initial=0.0))
        # One device's positions lie far from the next one's, and the bisection looks a little further than it must, so
        # that rounding cannot hide an interval from it.
        self._stride = 4.0 * (self._reach + 1.0)
        self._margin = max(1.0, 4.0 * float(np.spacing(self._stride * max(1, len(spans)))))
        devices = spans.devices
        self._starts, self._ends = devices * self._stride + spans.starts, devices * self._stride + spans.ends
        self._last: Floats | None = None

    def elsewhere(self, place: Place) -> "RecordedBatch":
        """Return a batch of clients in another place; the trace itself is shared."""
        other = copy(self)
        other._place, other._last = place, None
        return other

    def at(self, clients: Clients, instant: float) -> Mask:
        """Look it up."""
        return self._trace.available_at(clients, instant, self._place, self._draws)

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Gather the intervals lap by lap, and join those that touch."""
        return self._spells(self._trace.assigned(clients, self._draws), since, until)

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:
        """Find the last end of devices whose trace is not repeated; others never leave, unless they never come."""
        if self._last is None:
            spans = self._trace.pattern.spans
            self._last = np.where(np.diff(spans.offsets) == 0, -np.inf, np.inf)
            if math.isinf(self._trace.pattern.lap):
                # Clocks that are changed, and zones, move the last end by less than four days.
                all_of_it = self._spells(np.arange(len(spans)), 0.0, self._reach + 4 * 86_400.0)
                self._last = np.full(len(spans), -np.inf)
                np.maximum.at(self._last, all_of_it.who, all_of_it.ends)
        gone = np.maximum(self._last[self._trace.assigned(clients, self._draws)], since)
        gone[gone > until] = np.inf
        return gone

    def _spells(self, devices: Clients, since: float, until: float) -> Spells:
        spans = self._trace.pattern.spans
        found: list[Spells] = []
        for origin, low, high in self._laps(since, until):
            first, last = max(low, since), min(high, until)
            who, rows = self._rows(devices, first - origin, last - origin)
            starts = np.maximum(origin + spans.starts[rows], first)
            ends = np.minimum(origin + spans.ends[rows], last)
            some = starts < ends
            found.append(Spells(who[some], starts[some], ends[some]))
        who, starts, ends = together(found)
        order = np.lexsort((starts, who))
        # Pieces of one device never overlap by more than they touch, so the last end is the largest.
        return joined(who[order], starts[order], ends[order])

    def _laps(self, since: float, until: float) -> Iterator[tuple[float, float, float]]:
        """Yield (origin, low, high) of the laps that touch a window, cut where the clocks are changed."""
        pattern, epoch = self._trace.pattern, self._place.start.timestamp()
        for begin, end, offset in offset_pieces(self._place.zone, epoch):
            low, high = begin - epoch, end - epoch
            if low >= until:
                return
            if high <= since:
                continue
            shift = shift_of(pattern, self._place, offset)
            if math.isinf(pattern.lap):
                yield origin_of(pattern, 0, shift), low, high
                continue
            lap = math.floor((max(low, since) + shift) / pattern.lap) - 1
            while (origin := origin_of(pattern, lap, shift)) < min(high, until):
                yield origin, low, high
                lap += 1

    def _rows(self, devices: Clients, first: float, last: float) -> tuple[Clients, Clients]:
        """Return which device each interval belongs to, and its row, for those near [first, last) of the lap."""
        base = devices * self._stride
        inside = self._stride / 4  # positions beyond a lap hold nothing
        first, last = (min(max(each, -inside), 2 * inside) for each in (first - self._margin, last + self._margin))
        low = np.searchsorted(self._ends, base + first, side="right")
        high = np.searchsorted(self._starts, base + last, side="left")
        count = np.maximum(high - low, 0)
        who = np.repeat(np.arange(len(devices)), count)
        return who, np.arange(len(who)) - np.repeat(np.cumsum(count) - count - low, count)
