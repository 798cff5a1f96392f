"""Recorded availability: its file, its faults, its layout lap by lap, and the clients who live by it."""

from fedsim.availability.trace.faults import Policy, TraceError
from fedsim.availability.trace.pattern import Pattern, build_pattern
from fedsim.availability.trace.recorded import RecordedAvailability
from fedsim.availability.trace.rows import CONDITIONS, Rows, Trace, clean
from fedsim.availability.trace.table import read_rows

__all__ = [
    "CONDITIONS",
    "Pattern",
    "Policy",
    "RecordedAvailability",
    "Rows",
    "Trace",
    "TraceError",
    "build_pattern",
    "clean",
    "read_rows",
]
