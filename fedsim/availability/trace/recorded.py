"""Recorded availability: each client lives the civil times of the device assigned to it, in its own time zone."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from fedsim.availability.batch import Clients, Mask
from fedsim.availability.offsets import offset_at, offset_pieces
from fedsim.availability.place import Place
from fedsim.availability.trace.pattern import DAY_S, WEEK_S, Pattern
from fedsim.availability.trace.unions import Spans
from fedsim.common.keyed import Stream

if TYPE_CHECKING:
    from fedsim.availability.trace.batch import RecordedBatch

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

        The position in the lap is the same for all; each client's intervals are bisected, all at once. What is compared
        is the very number that `intervals` gives, so that the two agree to the last bit.
        """
        pattern, spans = self.pattern, self.pattern.spans
        shift = shift_of(pattern, place, offset_at(place.zone, _second(place, instant)))
        lap = 0 if math.isinf(pattern.lap) else math.floor((instant + shift) / pattern.lap)
        if math.isfinite(pattern.lap):  # the quotient is rounded: at most one off
            lap += int(origin_of(pattern, lap + 1, shift) <= instant) - int(origin_of(pattern, lap, shift) > instant)
        origin = origin_of(pattern, lap, shift)
        devices = self.assigned(clients, draws)
        low, high = spans.offsets[devices], spans.offsets[devices + 1]
        first = low.copy()
        while (low < high).any():
            middle = (low + high) // 2
            open_ = low < high
            after = open_ & (origin + spans.starts[np.where(open_, middle, 0)] <= instant)
            low, high = np.where(after, middle + 1, low), np.where(open_ & ~after, middle, high)
        # `low` is the first interval that starts later; the one before is the only one that can hold the instant.
        holds = low > first
        holds[holds] = instant < origin + spans.ends[low[holds] - 1]
        return holds

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[RecordedBatch]":
        """Return a batch for each place; the trace itself is shared."""
        from fedsim.availability.trace.batch import RecordedBatch

        first = RecordedBatch(self, homes[0][0], draws)
        return [first.elsewhere(place) for place, _ in homes]

    def _device(self, client: int, draws: Stream) -> int:
        return int(self.assigned(np.array([client]), draws)[0])


@lru_cache(maxsize=16)
def _shuffled(draws: Stream, count: int) -> Clients:
    return np.argsort(draws.bits(np.arange(count), _RANK), kind="stable")


def _second(place: Place, instant: float) -> int:
    """Return the last whole second since 1970 that is not after an instant; clocks are changed at whole seconds."""
    epoch = place.start.timestamp()
    second = math.floor(epoch + instant)
    return second + int((second + 1) - epoch <= instant) - int(second - epoch > instant)


def origin_of(pattern: Pattern, lap: int, shift: float) -> float:
    """Return the instant at which a lap begins: that of its position 0."""
    return (lap * pattern.lap if lap else 0.0) - shift


def shift_of(pattern: Pattern, place: Place, offset: float) -> float:
    """Return the position of simulated time 0, were the offset always this one.

    The trace's first day, or the Monday of its first week, is laid on the day, or the week, of `start`. A fraction of
    a second is rounded to 1/1024, so that a lap ends at the very number at which the next begins.
    """
    epoch = place.start.timestamp()
    civil = epoch + offset_at(place.zone, epoch)
    period, origin = (WEEK_S, 4 * DAY_S) if pattern.weekly else (DAY_S, 0.0)
    shift = epoch + offset - (math.floor((civil - origin) / period) * period + origin)
    return round(shift * 1024) / 1024


def _unrolled(spans: Spans, device: int, pattern: Pattern, place: Place) -> Iterator[tuple[float, float]]:
    """Yield the intervals of one device from time 0 on, joined where they touch."""
    starts, ends = (times.tolist() for times in spans.of(device))
    if not starts:
        return
    if (starts, ends) == ([0.0], [pattern.lap]):
        yield 0.0, math.inf
        return
    waiting: tuple[float, float] | None = None
    for start, end in _pieces(starts, ends, pattern, place):
        if waiting is not None and start <= waiting[1]:
            waiting = waiting[0], max(waiting[1], end)
        else:
            if waiting is not None:
                yield waiting
            waiting = start, end
    if waiting is not None:
        yield waiting


def _pieces(starts: list[float], ends: list[float], pattern: Pattern, place: Place) -> Iterator[tuple[float, float]]:
    """Yield the intervals lap by lap, cut where the clocks are changed and where a lap ends."""
    epoch = place.start.timestamp()
    for begin, end, offset in offset_pieces(place.zone, epoch):
        low, high = begin - epoch, end - epoch
        shift = shift_of(pattern, place, offset)
        lap = 0 if math.isinf(pattern.lap) else math.floor((low + shift) / pattern.lap) - 1
        while (origin := origin_of(pattern, lap, shift)) < high:
            for start, stop in zip(starts, ends, strict=True):
                first, last = max(origin + start, low), min(origin + stop, high)
                if first < last:
                    yield first, last
            if math.isinf(pattern.lap):
                break
            lap += 1
        # Not repeated: two days more than its end, and no change of the clocks can bring it back.
        if math.isinf(pattern.lap) and low + shift > ends[-1] + 2 * DAY_S:
            return
