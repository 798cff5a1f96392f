"""A trace as rows of (device, start, end, condition), and the trace that is left when its faults are dealt with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.trace.faults import (
    LONGEST_S,
    MOST_DEVICES,
    MOST_INTERVALS,
    RESOLUTION_S,
    Policy,
    TraceError,
    TraceReport,
)
from fedsim.availability.trace.unions import Spans, union
from fedsim.common.arrays import Bools, Floats, Ints

CONDITIONS = ("available", "charging", "network", "idle")


@dataclass(frozen=True)
class Rows:
    """A trace as it is written.

    Attributes
    ----------
    names
        Names of the devices, in order of appearance.
    devices
        (n,) index into `names`.
    starts, ends
        (n,) seconds since the base; anything at all, NaN included.
    conditions
        (n,) index into `CONDITIONS`.
    source
        The file, for messages.
    line_of_first
        Line of row 0 where each row is a line of a text file, else 0.
    """

    names: tuple[str, ...]
    devices: Ints
    starts: Floats
    ends: Floats
    conditions: NDArray[np.int8]
    source: str = ""
    line_of_first: int = 0


@dataclass(frozen=True)
class Trace:
    """A trace without faults: for each condition of the file the sorted disjoint intervals of every device.

    Attributes
    ----------
    names
        Names of the devices, in the order of the file.
    spans
        By condition; seconds since the base.
    report
        What was wrong, and what was done.
    """

    names: tuple[str, ...]
    spans: Mapping[str, Spans]
    report: TraceReport


def clean(
    rows: Rows, policy: Policy = "repair", *, keep_empty: bool = False, report: TraceReport | None = None
) -> Trace:
    """Deal with a trace's faults.

    Parameters
    ----------
    rows
        The trace as written. A row whose start and end are both missing names a device without intervals.
    policy
        What to do about faults.
    keep_empty
        Keep devices without intervals, as devices that are never available.
    report
        Counts that are known from before.

    Raises
    ------
    TraceError
        If the policy refuses a fault, or nothing is left.
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
        raise _impossible(rows, impossible)
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
    return Trace(rows.names, spans, report)


def _impossible(rows: Rows, which: Bools) -> TraceError:
    first, count = int(np.argmax(which)), int(which.sum())
    others = f" (and {count - 1:,} more such intervals)" if count > 1 else ""
    message = (
        f"device {rows.names[rows.devices[first]]!r} has the interval [{rows.starts[first]:g}, {rows.ends[first]:g}], "
        f"which is impossible: times are seconds, finite and within 100 years of the base{others}; with the policy "
        "lenient such intervals are dropped"
    )
    return _refused(rows, which, message)


def _refused(rows: Rows, which: Bools, message: str) -> TraceError:
    line = rows.line_of_first + int(np.argmax(which)) if rows.line_of_first and which.any() else 0
    return TraceError(message, rows.source, line, 1 if line else 0)
