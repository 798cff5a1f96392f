"""Import of traces that others have published: JSON of intervals, and text or JSON of timed events."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from fedsim.availability.trace.faults import Policy, TraceError, TraceReport
from fedsim.availability.trace.rows import Rows, Trace, clean
from fedsim.availability.trace.table import LARGEST_FILE, check_file
from fedsim.traces.events_form import Events
from fedsim.traces.json_form import position, read_json

Form: TypeAlias = Literal["auto", "json", "tsv"]
_MOST_FILES = 100_000


@dataclass(frozen=True)
class Imported:
    """A trace in fedsim's own form.

    Attributes
    ----------
    trace
        Without faults; its report says what they were.
    base
        The instant of second 0, as far as it is known.
    """

    trace: Trace
    base: datetime | None


def import_trace(path: Path, form: Form = "auto", base: datetime | None = None, policy: Policy = "repair") -> Imported:
    """Read a trace of another form.

    Parameters
    ----------
    path
        A JSON file, a text file, or a folder of text files, one for each device.
    form
        What it is; auto looks.
    base
        The instant of second 0. For events with dates it is midnight before the first event by default.
    policy
        What to do about faults.

    Raises
    ------
    TraceError
        With the place of what is wrong.
    """
    found = _read_folder(path, form, policy) if path.is_dir() else _read_file(path, form, policy)
    if isinstance(found, Rows):
        return Imported(clean(found, policy, keep_empty=True), base)
    if not found:
        raise TraceError("has no events", found.source)
    base = base or found.base()
    rows, unordered = found.rows(base)
    known = TraceReport(0, 0, 0, unordered_events=unordered, unknown_events=found.unknown)
    trace = clean(rows, policy, keep_empty=True, report=known)
    report = replace(trace.report, impossible=trace.report.impossible + found.impossible)
    return Imported(replace(trace, report=report), base)


def _read_file(path: Path, form: Form, policy: Policy) -> Rows | Events:
    data = _bytes(path)
    if data[:1] == b"\x80":
        message = "is a Python pickle, which can run any program when it is read, so it is not; write the trace as JSON"
        raise TraceError(message, str(path), 1, 1)
    begin = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if form == "json" or (form == "auto" and begin in {b"{", b"["}):
        return read_json(path, data, lenient=policy == "lenient")
    events = Events(str(path), policy == "lenient")
    text = _text(path, data)
    first = next((line for line in text.split("\n", 1000) if line.strip()), "")
    if first.count("\t") == 2:
        events.add(text)
    elif form == "tsv" or "\t" in first:
        events.add(text, path.stem)
    else:
        message = 'is neither JSON ({"device": [[start, end], ...]}) nor lines of timestamp<TAB>event'
        raise TraceError(message, str(path), 1, 1)
    return events


def _read_folder(path: Path, form: Form, policy: Policy) -> Events:
    if form == "json":
        raise TraceError("is a folder; a trace in JSON is one file", str(path))
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in {".tsv", ".txt"})
    if not files or len(files) > _MOST_FILES:
        message = f"holds {len(files):,} files *.tsv or *.txt, one for each device; 1 to {_MOST_FILES:,} are possible"
        raise TraceError(message, str(path))
    events, size = Events(str(path), policy == "lenient"), 0
    for file in files:
        data = _bytes(file)
        size += len(data)
        if size > LARGEST_FILE:
            raise TraceError(f"holds more than {LARGEST_FILE // 2**20} MiB", str(path))
        events.source = str(file)
        if file.stem in events.names:
            raise TraceError(f"device {file.stem!r} is there twice, with another ending", str(file))
        events.add(_text(file, data), file.stem)
    events.source = str(path)
    return events


def _bytes(path: Path) -> bytes:
    check_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", str(path)) from None


def _text(path: Path, data: bytes) -> str:
    try:
        text, bad, reason = data.decode("utf-8-sig"), data.find(b"\x00"), "holds a byte 0x00"
    except UnicodeDecodeError as error:
        text, bad, reason = "", error.start, f"byte 0x{data[error.start]:02x} is not UTF-8"
    if bad >= 0:
        raise TraceError(f"is not text: {reason}", str(path), *position(data, bad))
    return text
