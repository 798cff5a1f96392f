"""What can be wrong with a trace, what is done about it, and the account of what was done."""

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from fedsim.common.errors import FedsimError

Policy: TypeAlias = Literal["repair", "strict", "lenient"]
"""repair: faults that have one sensible remedy are remedied, times that cannot be are refused; strict: any fault is
refused; lenient: intervals with impossible times are dropped too."""

RESOLUTION_S = 1e-5
"""Intervals shorter than this are empty, and gaps shorter than this are closed: over centuries of simulated time
a float64 cannot tell their two ends apart."""
LONGEST_S = 100 * 366 * 86_400.0
"""Times beyond this many seconds from the base are a wrong unit or a wrong number."""
MOST_INTERVALS = 10_000_000
MOST_DEVICES = 5_000_000


class TraceError(FedsimError):
    """A trace that cannot be used.

    Parameters
    ----------
    message
        What is wrong, with the remedy.
    source
        The file.
    line, column
        The place in the file, from 1; 0 where there is none.
    """

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

    Attributes
    ----------
    rows
        Intervals as written.
    intervals
        Intervals that are left, disjoint and in order.
    devices
        Devices that have at least one of them.
    touching
        Intervals that were joined to the one before because they begin where it ends; no fault.
    empty
        Intervals of zero length (below 10 microseconds), dropped.
    negative
        Intervals that end before they start, dropped.
    overlapping
        Intervals that begin before an earlier one of the same device and condition ends, merged.
    impossible
        Intervals with a time that is missing, not finite, or more than 100 years from the base: refused, or dropped
        where the policy is lenient.
    devices_without
        Devices that were named but have no interval left.
    unordered_events
        Events written after a later one of the same device, sorted (text form only).
    unknown_events
        Events of no known meaning, left out (text form only).
    outside
        Intervals outside of the part that an import was asked for, dropped.
    gaps
        Gaps that an import closed because they are short.
    short
        Intervals that an import dropped because they are short.
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
