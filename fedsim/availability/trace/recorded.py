"""Recorded availability: each client lives the civil times of the device assigned to it, in its own time zone."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Spells, together
from fedsim.availability.civil import offset_at, offset_pieces
from fedsim.availability.place import Place
from fedsim.availability.trace.pattern import DAY_S, WEEK_S, Pattern
from fedsim.availability.trace.unions import Spans, union
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Stream

Assign: TypeAlias = Literal["with_replacement", "without_replacement", "in_order"]
_LOT = 0  # index of the draw of a client that chooses its device
_RANK = 2**40  # index of the draws that shuffle the devices: no client ever reaches it


@dataclass(frozen=True)
class RecordedAvailability:
    """The trace of a group: clients who live the times of recorded devices.

    Attributes
    ----------
    pattern
        What is repeated.
    assign
        How clients get their devices.
    first
        Index of the group's first client.
    taken
        Devices of the same file that earlier groups have taken.
    """

    pattern: Pattern
    assign: Assign = "with_replacement"
    first: int = 0
    taken: int = 0

    def assigned(self, clients: Clients, draws: Stream) -> Clients:
        """Return the device of the trace that each client is.

        With replacement a client's device depends on the client's own draw alone; without, the devices are shuffled by
        draws of their own and dealt in the order of the clients. So devices added to the population change nobody's.
        """
        count = len(self.pattern.names)
        if self.assign == "with_replacement":
            return np.floor(draws.uniforms(clients, _LOT) * count).astype(np.int64)
        places = np.asarray(clients) - self.first + self.taken
        return places if self.assign == "in_order" else _shuffled(draws, count)[places]

    def intervals(self, client: int, place: Place, draws: Stream) -> Iterator[tuple[float, float]]:
        """Return the intervals in which one client is available, whole and in order."""
        return _unrolled(self.pattern.spans, self._device(client, draws), self.pattern, place)

    def conditions(self, client: int, place: Place, draws: Stream) -> Mapping[str, Iterator[tuple[float, float]]]:
        """Return the intervals of each required condition of one client, by name."""
        device = self._device(client, draws)
        return {name: _unrolled(spans, device, self.pattern, place) for name, spans in self.pattern.conditions.items()}

    def available_at(self, clients: Clients, instant: float, place: Place, draws: Stream) -> Mask:
        """Say of each of many clients whether it is available at one instant.

        Each client's intervals are bisected, all at once. What is compared is the very number that `intervals` gives,
        so that the two agree to the last bit.
        """
        spans, devices = self.pattern.spans, self.assigned(clients, draws)
        holds = np.zeros(len(devices), dtype=np.bool_)
        for origin, low, high in laps(self.pattern, place, instant, math.nextafter(instant, math.inf)):
            if low <= instant < high:
                who, rows = spans.near(devices, instant - origin, instant - origin)
                holds[who[(origin + spans.starts[rows] <= instant) & (instant < origin + spans.ends[rows])]] = True
        return holds

    def enterable(self, place: Place, until: float) -> bool:
        """Say whether any device of the trace is available at some instant in [0, until)."""
        spans, lap = self.pattern.spans, self.pattern.lap
        # Everything has been seen once after that; zones and changed clocks move it by less than four days.
        last = (float(spans.ends.max(initial=0.0)) if math.isinf(lap) else 2 * lap) + 4 * DAY_S
        for origin, low, high in laps(self.pattern, place, 0.0, min(until, last)):
            starts, ends = origin + spans.starts, origin + spans.ends
            if (np.maximum(starts, max(low, 0.0)) < np.minimum(ends, min(high, until))).any():
                return True
        return False

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[RecordedBatch]":
        """Return a batch for each place; the trace itself is shared."""
        return [RecordedBatch(self, place, draws) for place, _ in homes]

    def _device(self, client: int, draws: Stream) -> int:
        return int(self.assigned(np.array([client]), draws)[0])


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

    def __init__(self, trace: RecordedAvailability, place: Place, draws: Stream) -> None:
        self._trace, self._place, self._draws = trace, place, draws
        self._last: Floats | None = None

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
                all_of_it = self._spells(np.arange(len(spans)), 0.0, float(spans.ends.max()) + 4 * DAY_S)
                self._last = np.full(len(spans), -np.inf)
                np.maximum.at(self._last, all_of_it.who, all_of_it.ends)
        gone = np.maximum(self._last[self._trace.assigned(clients, self._draws)], since)
        gone[gone > until] = np.inf
        return gone

    def _spells(self, devices: Clients, since: float, until: float) -> Spells:
        spans = self._trace.pattern.spans
        found: list[Spells] = []
        for origin, low, high in laps(self._trace.pattern, self._place, since, until):
            first, last = max(low, since), min(high, until)
            who, rows = spans.near(devices, first - origin, last - origin)
            starts = np.maximum(origin + spans.starts[rows], first)
            ends = np.minimum(origin + spans.ends[rows], last)
            some = starts < ends
            found.append(Spells(who[some], starts[some], ends[some]))
        who, starts, ends = together(found)
        # Pieces that touch are joined; a gap stays, however short.
        joined, _ = union(who, starts, ends, len(devices), float(np.nextafter(0.0, 1.0)))
        return Spells(joined.devices, joined.starts, joined.ends)


@lru_cache(maxsize=16)
def _shuffled(draws: Stream, count: int) -> Clients:
    return np.argsort(draws.bits(np.arange(count), _RANK), kind="stable")


def _unrolled(spans: Spans, device: int, pattern: Pattern, place: Place) -> Iterator[tuple[float, float]]:
    """Yield the intervals of one device from time 0 on, joined where they touch."""
    starts, ends = (times.tolist() for times in spans.of(device))
    if not starts:
        return
    if (starts, ends) == ([0.0], [pattern.lap]):
        yield 0.0, math.inf
        return
    begin = until = -math.inf
    for start, end in chain(_pieces(starts, ends, pattern, place), [(math.inf, math.inf)]):
        if start > until:
            if begin < until:
                yield begin, until
            begin = start
        until = max(until, end)


def _pieces(starts: list[float], ends: list[float], pattern: Pattern, place: Place) -> Iterator[tuple[float, float]]:
    """Yield the intervals lap by lap, cut where the clocks are changed and where a lap ends."""
    for origin, low, high in laps(pattern, place, 0.0, math.inf):
        for start, stop in zip(starts, ends, strict=True):
            first, last = max(origin + start, low), min(origin + stop, high)
            if first < last:
                yield first, last
        # Not repeated: two days more than its end, and no change of the clocks can bring it back.
        if math.isinf(pattern.lap) and low - origin > ends[-1] + 2 * DAY_S:
            return


def laps(pattern: Pattern, place: Place, since: float, until: float) -> Iterator[tuple[float, float, float]]:
    """Yield (origin, low, high) of the laps that touch a window, cut where the clocks are changed.

    The trace's first day, or the Monday of its first week, is laid on the day, or the week, of `start`. `origin` is the
    instant of position 0 in a lap.
    """
    epoch = place.start.timestamp()
    period, monday = (WEEK_S, 4 * DAY_S) if pattern.weekly else (DAY_S, 0.0)
    first = math.floor((epoch + offset_at(place.zone, epoch) - monday) / period) * period + monday
    for begin, end, offset in offset_pieces(place.zone, epoch):
        low, high = begin - epoch, end - epoch
        if low >= until:
            return
        if high <= since:
            continue
        # A fraction of a second is rounded, so that a lap ends at the very number at which the next begins.
        shift = round((epoch + offset - first) * 1024) / 1024
        if math.isinf(pattern.lap):
            yield 0.0 - shift, low, high
            continue
        lap = math.floor((max(low, since) + shift) / pattern.lap) - 1
        while (origin := lap * pattern.lap - shift) < min(high, until):
            if origin + pattern.lap > max(low, since):
                yield origin, low, high
            lap += 1
