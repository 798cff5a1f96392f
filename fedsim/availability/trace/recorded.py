"""Recorded availability: each client lives the civil times of the device assigned to it, in its own time zone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isinf
from typing import Literal, TypeAlias

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Reasons, Spells, together
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.place import Place
from fedsim.availability.trace.pattern import Pattern
from fedsim.availability.trace.unions import Moments, union
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER, to_ms
from fedsim.common.keyed import Stream
from fedsim.common.reasons import REASON_OF

Assign: TypeAlias = Literal["with_replacement", "without_replacement", "in_order"]
_LOT = 0  # index of the draw of a client that chooses its device
_RANK = 2**40  # index of the draws that shuffle the devices: no client ever reaches it
_KNOWN = 360 * DAY  # of the clock from an instant on
_SHIFT = 4 * DAY  # clocks that are changed, and zones, move a time by less


@dataclass(frozen=True)
class RecordedAvailability(ExactModel):
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

    def conditions(self, client: int, place: Place, draws: Stream, since: int = 0) -> Mapping[str, Pieces]:
        """Return the pieces of each required condition of one client, by name."""
        device, pattern = self._device(client, draws), self.pattern
        return {name: _unrolled(own, device, pattern, place, since) for name, own in pattern.moments.items()}

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:
        """Return the intervals in which one client is available, cut where laps end and clocks are changed."""
        return _unrolled(self.pattern.available, self._device(client, draws), self.pattern, place)

    def enterable(self, place: Place, until_s: float) -> bool:
        """Say whether any device of the trace is available at some instant in [0, until_s)."""
        found, lap = self.pattern.available, self.pattern.lap
        # Everything has been seen once after that.
        last = (int(found.ends.max(initial=0)) if isinf(lap) else 2 * to_ms(lap)) + _SHIFT
        until, everyone = min(to_ms(until_s), last), np.arange(len(found))
        return any(len(each.who) for each in _within(found, everyone, self.pattern, place, 0, until))

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[RecordedBatch]":
        """Return a batch for each place; the trace itself is shared."""
        return [RecordedBatch(self, place, draws) for place, _ in homes]

    def _device(self, client: int, draws: Stream) -> int:
        return int(self.assigned(np.array([client]), draws)[0])


class RecordedBatch(Batch):
    """Clients that live by the trace of a group in one place."""

    def __init__(self, trace: RecordedAvailability, place: Place, draws: Stream) -> None:
        self._trace, self._pattern, self._place, self._draws = trace, trace.pattern, place, draws
        self.may_leave = isinf(trace.pattern.lap) or bool((np.diff(trace.pattern.available.offsets) == 0).any())

    def at(self, clients: Clients, instant: int) -> Mask:
        """Bisect the intervals of all clients at once."""
        return self._holding(self._pattern.available, self._trace.assigned(clients, self._draws), instant)

    def reasons(self, clients: Clients, instant: int) -> Reasons:
        """Look up each condition by itself."""
        devices, found = self._trace.assigned(clients, self._draws), np.zeros(len(clients), dtype=np.uint16)
        for name, moments in self._pattern.moments.items():
            found[~self._holding(moments, devices, instant)] |= int(REASON_OF[name])
        return found

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Gather the intervals lap by lap, and join those that touch."""
        return self._spells(self._trace.assigned(clients, self._draws), since, until)

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:
        """Find the last end of devices whose trace is not repeated; others never leave, unless they never come."""
        gone = np.maximum(self._last[self._trace.assigned(clients, self._draws)], since)
        gone[gone > until] = FOREVER
        return gone

    @cached_property
    def _last(self) -> Ints:
        """When each device of the trace is available for the last time; before all time, where it never is."""
        found = self._pattern.available
        last = np.where(np.diff(found.offsets) == 0, -FOREVER, FOREVER)
        if isinf(self._pattern.lap):
            all_of_it = self._spells(np.arange(len(found)), 0, int(found.ends.max(initial=0)) + _SHIFT)
            last = np.full(len(found), -FOREVER)
            np.maximum.at(last, all_of_it.who, all_of_it.ends)
        return last

    def _holding(self, moments: Moments, devices: Clients, instant: int) -> Mask:
        holds = np.zeros(len(devices), dtype=np.bool_)
        for found in _within(moments, devices, self._pattern, self._place, instant, instant + 1):
            holds[found.who] = True
        return holds

    def _spells(self, devices: Clients, since: int, until: int) -> Spells:
        parts = _within(self._pattern.available, devices, self._pattern, self._place, since, until)
        who, starts, ends = together(parts)
        joined, _ = union(who, starts, ends, len(devices))
        return Spells(joined.devices, joined.starts, joined.ends)


@lru_cache(maxsize=16)
def _shuffled(draws: Stream, count: int) -> Clients:
    return np.argsort(draws.bits(np.arange(count), _RANK), kind="stable")


def _within(
    moments: Moments, devices: Clients, pattern: Pattern, place: Place, since: int, until: int
) -> Iterator[Spells]:
    """Yield, lap by lap, the intervals of devices (n,) within [since, until), cut there and as in `laps`."""
    for origin, low, high in laps(pattern, place, since, until):
        first, last = max(low, since), min(high, until)
        who, rows = moments.near(devices, first - origin, last - origin)
        starts = np.maximum(origin + moments.starts[rows], first)
        ends = np.minimum(origin + moments.ends[rows], last)
        some = starts < ends
        yield Spells(who[some], starts[some], ends[some])


def _unrolled(moments: Moments, device: int, pattern: Pattern, place: Place, since: int = 0) -> Pieces:
    """Yield the intervals of one device, cut where the clocks are changed and where a lap ends."""
    starts, ends = (times.tolist() for times in moments.of(device))
    if (starts, ends) == ([0], [to_ms(pattern.lap)]):
        yield 0, FOREVER
    elif starts:
        until = ends[-1] + _SHIFT if isinf(pattern.lap) else FOREVER
        for found in _within(moments, np.array([device]), pattern, place, since, until):
            yield from zip(found.starts.tolist(), found.ends.tolist(), strict=True)


def laps(pattern: Pattern, place: Place, since: int, until: int) -> Iterator[tuple[int, int, int]]:
    """Yield (origin, low, high) of the laps that touch a window, cut where it begins and where clocks are changed.

    The trace's first day, or the Monday of its first week, is laid on the day, or the week, of `start`. `origin` is the
    instant of position 0 in a lap.
    """
    clock, lap = place.clock(0), to_ms(pattern.lap)
    day = clock.day(0)
    day -= (day - 1) % 7 if pattern.weekly else 0  # day 1 was a Monday
    first, low = (day - clock.first_day) * DAY - clock.begun, since
    while low < until:
        clock = place.clock(low)
        change = int(clock.changes.searchsorted(low, side="right"))
        high = int(clock.changes[change]) if change < len(clock.changes) else low + _KNOWN
        shift = int(clock.offsets[change]) - first
        if lap == FOREVER:
            yield -shift, low, high
        else:
            earliest = (low + shift) // lap * lap - shift
            yield from ((origin, low, high) for origin in range(earliest, min(high, until), lap))
        low = high
