"""A trace in civil time, laid out on a lap of whole days or weeks that can be repeated without losing the time of day.

The position of an instant is its civil time, in seconds since midnight of the trace's first day, or since the Monday of
its first week where the lap is made of weeks. Where clocks were changed while the trace was recorded, an hour that
occurs twice is available where either was, and an hour that is left out where the device was available across it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from itertools import compress
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from fedsim.availability.civil import offset_at, offset_pieces
from fedsim.availability.spells import Spells, intersection
from fedsim.availability.trace.bulk import extent
from fedsim.availability.trace.rows import SEEN, SHORTEST_CYCLE_S, UNKNOWN, CleanTrace, TraceError
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.formatting import count
from fedsim.common.instants import DAY_S, HOUR, HOUR_S, each_to_ms, to_ms

Repeat: TypeAlias = Literal["week", "day", "device", "none"]
_A_MONDAY = 4 * DAY_S  # 5 January 1970


class DeviceLaps(NamedTuple):
    """A lap for each device, in whole milliseconds: the position at which it begins, and its length."""

    begins: Ints
    lengths: Ints

    def of(self, devices: Ints | Bools) -> "DeviceLaps":
        """Return those of some devices."""
        return DeviceLaps(self.begins[devices], self.lengths[devices])


@dataclass(frozen=True)
class Pattern:
    """A trace laid out on its lap."""

    # spans, conditions: by device, positions in milliseconds within [0, lap), or since the begin of the device's own
    # lap: where all required conditions hold, and where each does
    spans: Spells
    conditions: dict[str, Spells]
    # seen: when each device was observed, positions that are not folded; one interval for a device, several
    # where it is unknown between them, or none
    seen: Spells
    lap: float  # length in seconds, whole weeks or days, or the longest own lap; infinite where nothing is repeated
    weekly: bool  # positions are counted from a Monday
    reference: float  # civil time of position 0, in seconds since 1970-01-01 00:00
    # begin, covered: position at which the trace begins, and the seconds that it covers; the rest of a lap is not
    # available
    begin: float
    covered: float
    names: tuple[str, ...]  # names of the devices
    never: int  # how many devices are never available; they are not among `names` unless they are kept
    stray: int = 0  # how many intervals were left out because a time of theirs is far from all others
    outside: int = 0  # how many more because they lie outside of the part that is used
    device_laps: DeviceLaps | None = None
    windows: bool = False  # the file says when each device was observed

    def left_out(self) -> list[str]:
        """Say which intervals were left out."""
        notes = [stray_words(self.stray)] if self.stray else []
        if self.outside:
            notes.append(f"{count(self.outside, 'interval')} outside of the part that is used, left out")
        return notes

    def observed(self) -> str:
        """Say for how long devices were observed, or that they may have been observed for a part of the time only."""
        devices, whole = self.spans.count, self.covered / HOUR_S
        if self.windows:
            hours = np.bincount(self.seen.who, (self.seen.ends - self.seen.starts) / HOUR, minlength=devices)
            low, middle, high = np.quantile(hours, [0.1, 0.5, 0.9])
            return (
                f"devices were observed for {middle:.1f} h of {whole:.1f} h in the median "
                f"({low:.1f} to {high:.1f} h for 80 %)"
            )
        opened, closed = np.full(devices, np.inf), np.full(devices, -np.inf)
        np.minimum.at(opened, self.spans.who, self.spans.starts_s)
        np.maximum.at(closed, self.spans.who, self.spans.ends_s)
        hull = float(np.median((closed - opened)[closed > opened])) / HOUR_S
        if hull > whole / 2 or not math.isinf(self.lap):
            return ""
        return (
            f"from its first start to its last end a device has {hull:.1f} h of {whole:.1f} h in the median; time "
            "without a record counts as not available, unless seen_from_s and seen_to_s say when a device was observed"
        )


def build_pattern(
    trace: CleanTrace,
    base: datetime,
    zone: tzinfo | None = None,
    repeat: Repeat = "week",
    require: Sequence[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    *,
    keep_empty: bool = False,
    strict: bool = False,
) -> Pattern:
    """Lay out a trace without faults.

    `base` is the instant of second 0. The trace is read in the civil time of `zone`, None for the offset of the base,
    and repeated by whole weeks, whole days, each device by its own lap, or not at all; the lap is the shortest one that
    holds it, a device's own one its cycle or, without one, as long as it was observed. All conditions of `require` must
    hold, None for every condition of the file. `since` and `until` are the part of the trace that is used, in seconds
    from the base; by default the bulk, see `extent`. Devices that are never available stay if `keep_empty`. Raises a
    `TraceError` if the file lacks a condition or own laps, nothing is left, or times are far from all others and it is
    `strict`.
    """
    needed = list(require or trace.conditions)
    for condition in needed:
        if condition not in trace.spans:
            raise TraceError(f"has no intervals of the condition {condition!r}; it has {', '.join(trace.conditions)}")
    if repeat == "device" and trace.seen is None:
        raise TraceError(f"cannot repeat each device by its own lap: it has none of the columns {', '.join(SEEN)}")
    part = extent([trace.spans[condition] for condition in needed], since, until, trace.seen)
    first, last, stray, outside, parts, windows = part
    if stray and strict:
        raise TraceError(f"has faults, and the policy is strict: {stray_words(stray)}")
    if last <= first:
        raise TraceError(f"ends {last:g} s after its base, before the part that is used begins ({first:g} s)")
    civil = zone or base.tzinfo
    assert civil is not None, "an instant has a zone"
    opening, closing = base.timestamp() + first, base.timestamp() + last
    # The end lies before a change of the clocks at that very instant.
    begin, end = opening + offset_at(civil, opening), closing + offset_at(civil, math.ceil(closing) - 1)
    period = 7 * DAY_S if repeat == "week" else DAY_S
    origin = _A_MONDAY if repeat == "week" else 0.0
    reference = math.floor((begin - origin) / period) * period + origin
    lap = math.inf if repeat == "none" else max(1, math.ceil((end - begin - 1e-3) / period)) * period
    seen = _positions(windows, base.timestamp(), civil, reference)
    device_laps = None
    if repeat == "device":
        assert trace.seen is not None
        device_laps = _laps_of_devices(seen, trace.seen[:, 2])
        lap = float(device_laps.lengths.max()) / 1e3
    if UNKNOWN in trace.spans:
        unknown = trace.spans[UNKNOWN].clip(to_ms(first), to_ms(last))
        seen = seen.less(_positions(unknown, base.timestamp(), civil, reference)).joined()
    clipped = (part.clip(to_ms(first), to_ms(last)) for part in parts)
    folded = (_fold(_positions(part, base.timestamp(), civil, reference), lap, device_laps) for part in clipped)
    laid = dict(zip(needed, folded, strict=True))
    spans = intersection(list(laid.values()))
    available = spans.has
    if not (available.any() or keep_empty):
        raise TraceError(f"leaves no device that ever has {' and '.join(needed)} within the part that is used")
    names = trace.names
    if not keep_empty and not available.all():
        spans = spans.select(available)
        laid = {condition: part.select(available) for condition, part in laid.items()}
        names, seen = tuple(compress(names, available)), seen.select(available)
        device_laps = None if device_laps is None else device_laps.of(available)
    return Pattern(
        spans,
        laid,
        seen,
        lap,
        repeat == "week",
        reference,
        begin - reference,
        end - begin,
        names,
        int((~available).sum()),
        stray,
        outside,
        device_laps,
        trace.seen is not None,
    )


def stray_words(stray: int) -> str:
    """Say how many intervals are far from all others."""
    return (
        f"{count(stray, 'interval')} with a time far from all others, left out; since and until say which part is used"
    )


def _laps_of_devices(seen: Spells, cycles: Floats) -> DeviceLaps:
    """Return the lap of each device: from when it was observed, for its cycle, or as long as it was observed."""
    begins, lengths = np.zeros((2, seen.count), dtype=np.int64)
    begins[seen.who], lengths[seen.who] = seen.starts, seen.ends - seen.starts
    lengths = np.where(np.isnan(cycles), lengths, each_to_ms(np.nan_to_num(cycles)))
    return DeviceLaps(begins, np.maximum(lengths, to_ms(SHORTEST_CYCLE_S)))


def _positions(spans: Spells, base: float, zone: tzinfo, reference: float) -> Spells:
    """Return the civil times, since `reference`, of intervals in milliseconds since `base`; both in seconds."""
    if not len(spans.who):
        return spans
    parts = list[Spells]()
    since, until = base + float(spans.starts_s.min()), base + float(spans.ends_s.max())
    for begin, end, offset in offset_pieces(zone, since, until):
        low, high, shift = to_ms(begin - base), to_ms(end - base), to_ms(base + offset - reference)
        inside = spans.where((spans.starts < high) & (spans.ends > low))
        cut = inside.clip(low, high)
        # Where the clock is put forward, what holds across the change holds in the hour that is left out.
        across = (inside.ends > high) * to_ms(max(offset_at(zone, end) - offset, 0.0) if math.isfinite(end) else 0.0)
        parts.append(replace(cut, starts=cut.starts + shift, ends=cut.ends + shift + across))
    return Spells.together(parts, spans.count).joined()


def _fold(spans: Spells, lap: float, device_laps: DeviceLaps | None) -> Spells:
    """Cut what reaches beyond the lap's end and lay it at the beginning."""
    if math.isinf(lap):
        return spans
    begins, each = (np.zeros(1, dtype=np.int64), to_ms(lap)) if device_laps is None else device_laps.of(spans.who)
    laps = (spans.starts - begins) // each * each + begins
    first = replace(spans, starts=spans.starts - laps, ends=spans.ends - laps)
    second = replace(spans, starts=np.zeros_like(laps), ends=first.ends - each).clip(0, each)
    return Spells.together([first.clip(0, each), second], spans.count).joined()
