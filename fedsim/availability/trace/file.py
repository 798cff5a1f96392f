"""Availability from a trace file that the scenario names."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from zoneinfo import ZoneInfo

from fedsim.availability.trace.faults import Policy, TraceError, TraceReport
from fedsim.availability.trace.pattern import DAY_S, Pattern, Repeat, build_pattern, stray_words
from fedsim.availability.trace.recorded import Assign, RecordedAvailability
from fedsim.availability.trace.rows import clean
from fedsim.availability.trace.table import check_file, read_rows
from fedsim.common.registry import OptionError

_Used: TypeAlias = tuple[datetime, ZoneInfo | None, Repeat, tuple[str, ...] | None, float | None, float | None]
"""How the trace is laid out: the arguments of `build_pattern` from `base` to `until`."""


class TraceFile(RecordedAvailability):
    """Recorded availability as a scenario asks for it; its options are told in `fedsim.scenario.trace.Trace`.

    Raises
    ------
    OptionError
        If the file cannot be used, or has too few devices.

    Attributes
    ----------
    notes
        What a person should know about the file, one line each.
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
            pattern, report = _read(path, policy, used, without_intervals == "keep", version)
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
        object.__setattr__(self, "notes", tuple(f"{file}: {note}" for note in _notes(pattern, report)))


@lru_cache(maxsize=8)
def _read(path: Path, policy: Policy, used: _Used, keep_empty: bool, _: tuple[int, int]) -> tuple[Pattern, TraceReport]:
    # The file's time and size are part of the key, so that a new file is read anew.
    trace = clean(read_rows(path), policy, keep_empty=keep_empty)
    try:
        return build_pattern(trace, *used, keep_empty=keep_empty, strict=policy == "strict"), trace.report
    except TraceError as error:
        raise TraceError(error.message, str(path)) from None


def _notes(pattern: Pattern, report: TraceReport) -> list[str]:
    notes = [str(report)] if report.faults() else []
    notes += [stray_words(pattern.stray)] if pattern.stray else []
    if pattern.never > report.devices_without:
        required = " and ".join(pattern.conditions)
        devices = f"{pattern.never:,} device{'s are' if pattern.never > 1 else ' is'}"
        notes.append(f"{devices} never available ({required}, within the part that is used)")
    if pattern.covered < 0.95 * pattern.lap < float("inf"):
        days, lap = pattern.covered / DAY_S, pattern.lap / DAY_S
        notes.append(
            f"covers {days:.3g} of the {lap:.0f} days that are repeated, and nobody is available in the others; "
            "`until` cuts the trace to whole weeks or days"
        )
    return notes
