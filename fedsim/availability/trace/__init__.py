"""Recorded availability: its file, its faults, its layout lap by lap, and the clients who live by it."""

from fedsim.availability.trace.pattern import Pattern, build_pattern
from fedsim.availability.trace.recorded import RecordedAvailability
from fedsim.availability.trace.rows import CONDITIONS, CleanTrace, Policy, TraceError, TraceRows, clean, read_rows

__all__ = [
    "CONDITIONS",
    "CleanTrace",
    "Pattern",
    "Policy",
    "RecordedAvailability",
    "TraceError",
    "TraceRows",
    "build_pattern",
    "clean",
    "read_rows",
]
