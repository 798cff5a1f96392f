"""From the scenario's keys to traces that can be asked, or to every mistake with its place."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

from fedsim.availability.trace.faults import TraceError, TraceReport
from fedsim.availability.trace.pattern import DAY_S, Pattern, build_pattern
from fedsim.availability.trace.recorded import Replay
from fedsim.availability.trace.rows import clean
from fedsim.availability.trace.table import read_rows
from fedsim.common.errors import Mistake
from fedsim.scenario import Scenario
from fedsim.scenario.trace import Trace


@dataclass(frozen=True)
class Opened:
    """The traces of a scenario.

    Attributes
    ----------
    replays
        By the index of their group; only groups with a trace that is as it should be.
    notes
        What a person should know about them, one line each.
    mistakes
        What is wrong with the others.
    """

    replays: dict[int, Replay]
    notes: list[str]
    mistakes: list[Mistake]


def open_traces(scenario: Scenario) -> Opened:
    """Read the traces that a scenario names, and say what each group of clients gets of them."""
    opened = Opened({}, [], [])
    first, taken = 0, dict[str, int]()
    for index, group in enumerate(scenario.population):
        kind = group.availability
        if isinstance(kind, Trace):
            path = ("population", index, "availability")
            try:
                pattern, report = _open(kind, scenario)
            except TraceError as error:
                opened.mistakes.append(scenario.mistake((*path, "file"), str(error)))
            else:
                dealt = kind.assign != "with_replacement"
                same = kind.model_dump_json()
                earlier = taken.get(same, 0) if dealt else 0
                taken[same] = earlier + group.devices
                devices = len(pattern.names)
                if dealt and earlier + group.devices > devices:
                    among = f" (after {earlier:,} of earlier groups)" if earlier else ""
                    message = (
                        f"{group.devices:,} clients{among} cannot have a device each: the trace has {devices:,} that "
                        "can be assigned; take fewer, or assign: with_replacement"
                    )
                    opened.mistakes.append(scenario.mistake((*path, "assign"), message))
                opened.replays[index] = Replay(pattern, kind.assign, first, earlier)
                notes = (f"{kind.file}: {note}" for note in _notes(pattern, report))
                opened.notes.extend(note for note in notes if note not in opened.notes)
        first += group.devices
    return opened


def _open(kind: Trace, scenario: Scenario) -> tuple[Pattern, TraceReport]:
    try:
        path = scenario.locate(kind.file)
    except ValueError as error:
        raise TraceError(str(error)) from None
    try:
        status = path.stat()
    except OSError:
        raise TraceError(f"there is no file {str(path)!r}") from None
    return _read(kind.model_dump_json(), path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(written: str, path: Path, _modified: int, _size: int) -> tuple[Pattern, TraceReport]:
    # The settings come as text because that can be a key; the file's time and size, so that a new file is read anew.
    kind = Trace.model_validate_json(written)
    keep = kind.without_intervals == "keep"
    trace = clean(read_rows(path), kind.policy, keep_empty=keep)
    zone = ZoneInfo(kind.time_zone) if kind.time_zone is not None else None
    try:
        pattern = build_pattern(
            trace, kind.base, zone, kind.repeat, kind.require, kind.since, kind.until, keep_empty=keep
        )
    except TraceError as error:
        raise TraceError(error.message, str(path)) from None
    return pattern, trace.report


def _notes(pattern: Pattern, report: TraceReport) -> list[str]:
    notes = [str(report)] if report.faults() else []
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
