"""A trace as rows of (device, start, end, condition), its faults, and the trace that is left without them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.trace.unions import RESOLUTION_S, Spans, union
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import FedsimError
from fedsim.common.instants import DAY_S

Policy: TypeAlias = Literal["repair", "strict", "lenient"]
"""repair: faults that have one sensible remedy are remedied, times that cannot be are refused; strict: any fault is
refused; lenient: intervals with impossible times are dropped too."""

LONGEST_S = 100 * 366 * DAY_S
"""Times beyond this many seconds from the base are a wrong unit or a wrong number."""
MOST_INTERVALS = 10_000_000
MOST_DEVICES = 5_000_000


class TraceError(FedsimError):
    """A trace that cannot be used: what is wrong, in which file, line and column (from 1; 0 where there is none)."""

    def __init__(self, message: str, source: str = "", line: int = 0, column: int = 0) -> None:
        self.message, self.source, self.line, self.column = message, source, line, column
        super().__init__(": ".join(part for part in (self.place, message) if part))

    @property
    def place(self) -> str:
        """``FILE:LINE:COLUMN``, as far as it is known."""
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.source, *numbers]) if self.source else ""


@dataclass(frozen=True)
class TraceReport:
    """How many intervals and devices a trace has, and what was wrong with it.

    `rows` counts intervals as written, `intervals` and `devices` what is left; `touching` counts intervals joined to
    the one before because they begin where it ends, which is no fault. The other counts are explained in `faults`;
    events occur in the text form only, and the last three only in an import.
    """

    rows: int
    intervals: int
    devices: int
    touching: int = 0
    empty: int = 0
    negative: int = 0
    overlapping: int = 0
    impossible: int = 0
    devices_without: int = 0
    unordered_events: int = 0
    unknown_events: int = 0
    outside: int = 0
    gaps: int = 0
    short: int = 0

    def counts(self) -> dict[str, int]:
        """All numbers by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def faults(self) -> list[str]:
        """Say each kind of fault and its remedy in words; empty for a trace without any."""
        said = [
            (self.empty, "interval", "of zero length, dropped"),
            (self.negative, "interval", "ending before the start, dropped"),
            (self.overlapping, "interval", "overlapping an earlier one, merged"),
            (self.impossible, "interval", "with an impossible time, dropped"),
            (self.devices_without, "device", "without any interval"),
            (self.unordered_events, "event", "out of order, sorted"),
            (self.unknown_events, "event", "of unknown meaning, left out"),
            (self.outside, "interval", "outside of the part that is kept, dropped"),
            (self.gaps, "short gap", "closed"),
            (self.short, "short interval", "dropped"),
        ]
        return [f"{_counted(count, noun)} {what}" for count, noun, what in said if count]

    def __str__(self) -> str:
        text = _counted(self.intervals, "interval") + " of " + _counted(self.devices, "device")
        return f"{text}; {'; '.join(self.faults())}" if self.faults() else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


CONDITIONS = ("available", "charging", "network", "idle")


@dataclass(frozen=True)
class TraceRows:
    """A trace as it is written: n rows, and the names of the devices in order of appearance.

    `devices` and `conditions` (n,) are indices into `names` and `CONDITIONS`; `starts` and `ends` (n,) are seconds
    since the base, NaN and other impossible values included. `line_of_first` is the line of row 0 where each row is a
    line of a text file, else 0.
    """

    names: tuple[str, ...]
    devices: Ints
    starts: Floats
    ends: Floats
    conditions: NDArray[np.int8]
    source: str = ""
    line_of_first: int = 0


@dataclass(frozen=True)
class CleanTrace:
    """A trace without faults: for each condition of the file the sorted disjoint intervals of every device.

    `spans` are in seconds since the base, `names` in the order of the file; `report` says what was wrong, and what was
    done.
    """

    names: tuple[str, ...]
    spans: Mapping[str, Spans]
    report: TraceReport


def clean(
    rows: TraceRows, policy: Policy = "repair", *, keep_empty: bool = False, report: TraceReport | None = None
) -> CleanTrace:
    """Repair or refuse a trace's faults, as the policy says.

    A row whose start and end are both missing names a device without intervals; `keep_empty` keeps such devices, as
    devices that are never available. `report` has counts that are known from before. Raises a `TraceError` if the
    policy refuses a fault, or nothing is left.
    """
    report = report or TraceReport(0, 0, 0)
    sizes = (len(rows.starts), MOST_INTERVALS, "intervals"), (len(rows.names), MOST_DEVICES, "devices")
    for count, most, noun in sizes:
        if count > most:
            raise TraceError(f"has {count:,} {noun}; at most {most:,} are possible", rows.source)
    missing = np.isnan(rows.starts) & np.isnan(rows.ends)
    with np.errstate(invalid="ignore"):
        possible = (np.abs(rows.starts) <= LONGEST_S) & (np.abs(rows.ends) <= LONGEST_S)
        impossible = ~possible & ~missing
        lengths = np.where(possible, rows.ends - rows.starts, 0.0)
    if policy != "lenient" and impossible.any():
        first, count = int(np.argmax(impossible)), int(impossible.sum())
        others = f" (and {count - 1:,} more such intervals)" if count > 1 else ""
        message = (
            f"device {rows.names[rows.devices[first]]!r} has the interval [{rows.starts[first]:g}, "
            f"{rows.ends[first]:g}], which is impossible: times are seconds, finite and within 100 years of the "
            f"base{others}; with the policy lenient such intervals are dropped"
        )
        raise _refused(rows, impossible, message)
    negative, empty = possible & (lengths < 0), possible & (lengths >= 0) & (lengths < RESOLUTION_S)
    good = possible & (lengths >= RESOLUTION_S)
    spans, overlapping, touching = dict[str, Spans](), 0, 0
    for code, condition in enumerate(CONDITIONS):
        part = good & (rows.conditions == code)
        if part.any():
            spans[condition], joined = union(rows.devices[part], rows.starts[part], rows.ends[part], len(rows.names))
            overlapping, touching = overlapping + joined.overlapping, touching + joined.touching
    has = np.zeros(len(rows.names), dtype=np.bool_)
    has[rows.devices[good]] = True
    report = replace(
        report,
        rows=int(len(missing) - missing.sum()),
        intervals=sum(len(part.starts) for part in spans.values()),
        devices=int(has.sum()),
        touching=touching,
        empty=int(empty.sum()),
        negative=int(negative.sum()),
        overlapping=overlapping,
        impossible=int(impossible.sum()),
        devices_without=int((~has).sum()),
    )
    if policy == "strict" and replace(report, devices_without=0 if keep_empty else report.devices_without).faults():
        raise _refused(rows, negative | empty, f"has faults, and the policy is strict: {'; '.join(report.faults())}")
    if not has.any():
        raise TraceError(f"has no interval that could be used ({report.rows:,} written)", rows.source)
    return CleanTrace(rows.names, spans, report)


def _refused(rows: TraceRows, which: Bools, message: str) -> TraceError:
    line = rows.line_of_first + int(np.argmax(which)) if rows.line_of_first and which.any() else 0
    return TraceError(message, rows.source, line, 1 if line else 0)
