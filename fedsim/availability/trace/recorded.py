"""Recorded availability: each client has the civil times of the device assigned to it, in its own time zone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from math import isinf
from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability.batch import Batch, Reasons
from fedsim.availability.civil import Place
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.spells import Spells
from fedsim.availability.trace.pattern import Pattern, Repeat, build_pattern
from fedsim.availability.trace.rows import Policy, TraceError, TraceReport, check_file, clean, read_rows
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import DAY, DAY_S, FOREVER, to_ms
from fedsim.common.keyed import Stream
from fedsim.common.reasons import REASON_OF
from fedsim.common.registry import OptionError

Assign: TypeAlias = Literal["with_replacement", "without_replacement", "in_order"]
_DEVICE = 0  # index of the draw of a client that chooses its device
_RANK = 2**40  # index of the draws that shuffle the devices: no client ever reaches it
_KNOWN = 360 * DAY  # of the clock from an instant on
_SHIFT = 4 * DAY  # clocks that are changed, and zones, move a time by less


@dataclass(frozen=True)
class RecordedAvailability(ExactModel):
    """The trace of a group: each client has the times of a recorded device.

    `first` is the index of the group's first client, `taken` how many devices of the same file earlier groups have.
    """

    pattern: Pattern
    assign: Assign = "with_replacement"
    first: int = 0
    taken: int = 0

    def assigned(self, clients: Ints, draws: Stream) -> Ints:
        """Return the device of the trace that each client is.

        With replacement a client's device depends on the client's own draw alone; without, the devices are shuffled by
        draws of their own and dealt in the order of the clients. So a larger population changes no client's device.
        """
        count = len(self.pattern.names)
        if self.assign == "with_replacement":
            return np.floor(draws.uniforms(clients, _DEVICE) * count).astype(np.int64)
        ranks = np.asarray(clients) - self.first + self.taken
        return ranks if self.assign == "in_order" else _shuffled(draws, count)[ranks]

    def conditions(self, client: int, place: Place, draws: Stream, since: int = 0) -> Mapping[str, Pieces]:
        device, pattern = self._device(client, draws), self.pattern
        return {name: _unrolled(spells, device, pattern, place, since) for name, spells in pattern.conditions.items()}

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:
        return _unrolled(self.pattern.spans, self._device(client, draws), self.pattern, place)

    def enterable(self, place: Place, until_s: float) -> bool:
        """Return whether any device of the trace is available at some instant in [0, until_s)."""
        spells, lap = self.pattern.spans, self.pattern.lap
        # By then every interval has occurred once.
        last = (int(spells.ends.max(initial=0)) if isinf(lap) else 2 * to_ms(lap)) + _SHIFT
        until, everyone = min(to_ms(until_s), last), np.arange(spells.count)
        return any(len(each.who) for each in _within(spells, everyone, self.pattern, place, 0, until))

    def batches(self, homes: Sequence[tuple[Place, Ints]], draws: Stream) -> "list[RecordedBatch]":
        return [RecordedBatch(self, place, draws) for place, _ in homes]

    def _device(self, client: int, draws: Stream) -> int:
        return int(self.assigned(np.array([client]), draws)[0])


class RecordedBatch(Batch):
    """Clients with the trace of a group in one place."""

    def __init__(self, trace: RecordedAvailability, place: Place, draws: Stream) -> None:
        self._trace, self._pattern, self._place, self._draws = trace, trace.pattern, place, draws
        self.may_leave = isinf(trace.pattern.lap) or not trace.pattern.spans.has.all()

    def at(self, clients: Ints, instant: int) -> Bools:
        return self._holding(self._pattern.spans, self._trace.assigned(clients, self._draws), instant)

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        devices, reasons = self._trace.assigned(clients, self._draws), np.zeros(len(clients), dtype=np.uint16)
        for name, spells in self._pattern.conditions.items():
            reasons[~self._holding(spells, devices, instant)] |= int(REASON_OF[name])
        return reasons

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        return self._spells(self._trace.assigned(clients, self._draws), since, until)

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        gone = np.maximum(self._last[self._trace.assigned(clients, self._draws)], since)
        gone[gone > until] = FOREVER
        return gone

    @cached_property
    def _last(self) -> Ints:
        """(devices,) when each is available for the last time; `-FOREVER` where it never is."""
        spells = self._pattern.spans
        last = np.where(spells.has, FOREVER, -FOREVER)
        if isinf(self._pattern.lap):
            all_of_it = self._spells(np.arange(spells.count), 0, int(spells.ends.max(initial=0)) + _SHIFT)
            last = np.full(spells.count, -FOREVER)
            np.maximum.at(last, all_of_it.who, all_of_it.ends)
        return last

    def _holding(self, spells: Spells, devices: Ints, instant: int) -> Bools:
        origin, *_ = next(laps(self._pattern, devices, self._place, instant, instant + 1))
        return spells.at(devices, instant - origin)

    def _spells(self, devices: Ints, since: int, until: int) -> Spells:
        within = _within(self._pattern.spans, devices, self._pattern, self._place, since, until)
        return Spells.together(within, len(devices)).joined()


@lru_cache(maxsize=16)
def _shuffled(draws: Stream, count: int) -> Ints:
    return np.argsort(draws.bits(np.arange(count), _RANK), kind="stable")


def _within(spells: Spells, devices: Ints, pattern: Pattern, place: Place, since: int, until: int) -> Iterator[Spells]:
    """Yield, lap by lap, the intervals of devices (n,) within [since, until), cut there and as in `laps`."""
    for origin, low, high in laps(pattern, devices, place, since, until):
        first, last = max(low, since), min(high, until)
        who, rows = spells.near(devices, first - origin, last - origin)
        begun = origin if isinstance(origin, int) else origin[who]
        yield Spells(who, begun + spells.starts[rows], begun + spells.ends[rows], len(devices)).clip(first, last)


def _unrolled(spells: Spells, device: int, pattern: Pattern, place: Place, since: int = 0) -> Pieces:
    """Yield the intervals of one device, cut where the clocks are changed and where a lap ends."""
    starts, ends = (times.tolist() for times in spells.of(device))
    lap = to_ms(pattern.lap) if pattern.device_laps is None else int(pattern.device_laps.lengths[device])
    if (starts, ends) == ([0], [lap]):
        yield 0, FOREVER
    elif starts:
        until = ends[-1] + _SHIFT if isinf(pattern.lap) else FOREVER
        for part in _within(spells, np.array([device]), pattern, place, since, until):
            yield from zip(part.starts.tolist(), part.ends.tolist(), strict=True)


def laps(
    pattern: Pattern, devices: Ints, place: Place, since: int, until: int
) -> Iterator[tuple[int | Ints, int, int]]:
    """Yield (origin, low, high) of the laps that touch a window, cut where it begins and where clocks are changed.

    `origin` is the instant of position 0 in a lap, (n,) of each device's own lap where it has one: the trace's first
    day, or the Monday of its first week, is laid on the day, or the week, of `start`.
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
        elif pattern.device_laps is not None and len(devices):
            begins, lengths = pattern.device_laps.of(devices)
            earlier = (low + shift - begins) // lengths * lengths + begins - shift
            for number in range(int(((min(high, until) - earlier) // lengths).max()) + 1):
                yield earlier + number * lengths, low, high
        else:
            earliest = (low + shift) // lap * lap - shift
            yield from ((origin, low, high) for origin in range(earliest, min(high, until), lap))
        low = high


_Used: TypeAlias = tuple[datetime, ZoneInfo | None, Repeat, tuple[str, ...] | None, float | None, float | None]
"""How the trace is laid out: the arguments of `build_pattern` from `base` to `until`."""


class TraceFile(RecordedAvailability):
    """Recorded availability with the options of a scenario (`fedsim.scenario.trace.Trace`); `notes` are for the user.

    Raises an `OptionError` if the file cannot be used, or has too few devices.
    """

    notes: tuple[str, ...]

    def __init__(
        self,
        file: str,
        base: datetime,
        time_zone: str | None,
        repeat: Repeat,
        since: float | None,
        until: float | None,
        require: list[str] | None,
        assign: Assign,
        policy: Policy,
        without_intervals: str,
        *,
        members: range,
        earlier: int,
        locate: Callable[[str], Path],
    ) -> None:
        zone = None if time_zone is None else ZoneInfo(time_zone)
        used = (base, zone, repeat, None if require is None else tuple(require), since, until)
        try:
            path = locate(file)
            check_file(path)
            status = path.stat()
            version = status.st_mtime_ns, status.st_size
            pattern, counts = _read(path, policy, used, without_intervals == "keep", version)
        except (TraceError, ValueError) as error:
            raise OptionError("file", str(error)) from None
        dealt, devices = assign != "with_replacement", len(pattern.names)
        if dealt and earlier + len(members) > devices:
            among = f" (after {earlier:,} of earlier groups)" if earlier else ""
            raise OptionError(
                "assign",
                f"{len(members):,} clients{among} cannot have a device each: the trace has {devices:,} that can be "
                "assigned; take fewer, or assign: with_replacement",
            )
        super().__init__(pattern, assign, members.start, earlier if dealt else 0)
        object.__setattr__(self, "notes", tuple(f"{file}: {note}" for note in _notes(pattern, counts)))


@lru_cache(maxsize=8)
def _read(path: Path, policy: Policy, used: _Used, keep_empty: bool, _: tuple[int, int]) -> tuple[Pattern, TraceReport]:
    # The file's time and size are part of the key, so that a new file is read anew.
    trace = clean(read_rows(path), policy, keep_empty=keep_empty)
    try:
        return build_pattern(trace, *used, keep_empty=keep_empty, strict=policy == "strict"), trace.report
    except TraceError as error:
        raise TraceError(error.message, str(path)) from None


def _notes(pattern: Pattern, counts: TraceReport) -> list[str]:
    notes = [str(counts)] if counts.faults() else []
    notes += pattern.left_out()
    if pattern.never > counts.devices_without:
        required = " and ".join(pattern.conditions)
        devices = f"{pattern.never:,} device{'s are' if pattern.never > 1 else ' is'}"
        notes.append(f"{devices} never available ({required}, within the part that is used)")
    if pattern.windows and pattern.device_laps is None:
        notes.append(f"{pattern.observed()}, and are not available in the rest; `repeat: device` repeats what was seen")
    elif pattern.device_laps is None and pattern.covered < 0.95 * pattern.lap < float("inf"):
        days, lap = pattern.covered / DAY_S, pattern.lap / DAY_S
        notes.append(
            f"covers {days:.3g} of the {lap:.0f} days that are repeated, and nobody is available in the others; "
            "`until` cuts the trace to whole weeks or days"
        )
    return notes
