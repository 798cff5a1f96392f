"""Traces that others have published: imported from tables, JSON of intervals or timed events, cleaned, and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from fedsim.availability.spells import Spells
from fedsim.availability.trace.bulk import extent
from fedsim.availability.trace.rows import (
    LARGEST_FILE,
    SEEN,
    UNKNOWN,
    CleanTrace,
    Policy,
    TraceError,
    TraceReport,
    TraceRows,
    check_file,
    clean,
)
from fedsim.common.files import write_bytes, write_table
from fedsim.common.instants import to_ms
from fedsim.traces.table_form import SUFFIXES, ForeignTable, read_foreign_table, since_base
from fedsim.traces.text_forms import Events, position, read_json

Form: TypeAlias = Literal["auto", "json", "tsv", "table"]
_MOST_FILES = 100_000


@dataclass(frozen=True)
class Cleaning:
    """What to do with a trace, in this order, for each condition; all in seconds.

    Keep the part from `since` to `until` from the base and cut what reaches beyond it; close gaps shorter than
    `join_gaps`; then drop intervals shorter than `min_length`.
    """

    since: float | None = None
    until: float | None = None
    join_gaps: float = 0.0
    min_length: float = 0.0

    def apply(self, trace: CleanTrace) -> CleanTrace:
        """Return the cleaned trace with all devices, its report extended by what was done.

        Raises a `TraceError` if nothing is left.
        """
        since, until = -np.inf if self.since is None else self.since, np.inf if self.until is None else self.until
        before, stray, kept, seen = _count(trace.spans), 0, list(trace.spans.values()), trace.seen
        if (self.since, self.until) != (None, None):  # a part of what is not far from all others
            limits = extent(kept, self.since, self.until, seen)
            stray, kept = limits.stray, limits.kept
            if seen is not None:
                seen = np.column_stack([np.full((len(seen), 2), limits.first), seen[:, 2]])
                seen[limits.seen.who, :2] = np.column_stack([limits.seen.starts_s, limits.seen.ends_s])
        part = {name: spans.clip(to_ms(since), to_ms(until)) for name, spans in zip(trace.spans, kept, strict=True)}
        inside = _count(part)
        joined = {name: spans.joined(max(to_ms(self.join_gaps), 1)) for name, spans in part.items()}
        whole = _count(joined)
        shortest = to_ms(self.min_length)
        long = {name: spans.where(spans.ends - spans.starts >= shortest) for name, spans in joined.items()}
        if not _count(long):
            lacking = "is long enough" if inside else "lies in the part that is kept"
            raise TraceError(f"leaves nothing: none of the {inside or before:,} intervals {lacking}")
        has = np.zeros(len(trace.names), dtype=np.bool_)
        left = CleanTrace(trace.names, long, trace.report, seen)
        for spans in left.conditions.values():
            has |= spans.has
        report = replace(
            trace.report,
            intervals=_count(long),
            devices=int(has.sum()),
            devices_without=int((~has).sum()),
            far=stray,
            outside=before - inside - stray,
            gaps=inside - whole,
            short=whole - _count(long),
        )
        return replace(left, report=report)


def _count(parts: Mapping[str, Spells]) -> int:
    return sum(len(spans.who) for name, spans in parts.items() if name != UNKNOWN)


@dataclass(frozen=True)
class Imported:
    """A trace in fedsim's own form, without faults.

    `base` is the instant of second 0 as far as it is known, `stray` the number of intervals with a time far from all
    others; `plain` says that it was read from a single file that scenarios can name as it is.
    """

    trace: CleanTrace
    base: datetime | None
    plain: bool = False
    stray: int = 0


def import_trace(
    path: Path | Sequence[Path],
    form: Form = "auto",
    base: datetime | None = None,
    policy: Policy = "repair",
    *,
    columns: Mapping[str, str] | None = None,
    cleaning: Cleaning | None = None,
) -> Imported:
    """Read a trace of another form.

    `path` is a CSV, Parquet, JSON or text file, a folder of text files, one for each device, or several of the same
    form; a device that is in several files has the intervals of all. `base` is the instant of second 0; for dates it is
    midnight before the first one by default. `columns` are as in `read_foreign_table`. Raises a `TraceError` with the
    place of what is wrong.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    contents = [
        _read_folder(each, form, policy) if each.is_dir() else _read_file(each, form, policy, columns) for each in paths
    ]
    tables = [each for each in contents if isinstance(each, ForeignTable)]
    written = [each for each in contents if isinstance(each, TraceRows)]
    events = [each for each in contents if isinstance(each, Events)]
    if max(len(tables), len(written), len(events)) < len(contents):
        raise TraceError("are of different forms; import them one by one", ", ".join(map(str, paths[:2])))
    unordered = unknown = impossible = 0
    if tables:
        written, base = since_base(tables, base)
    elif events:
        for each in events:
            if not each:
                raise TraceError("has no events", each.source)
        if len({each.kind for each in events if each.kind}) > 1:
            raise TraceError("write their times in different ways", ", ".join(map(str, paths[:2])))
        if base is None:
            base = min((instant for each in events if (instant := each.base()) is not None), default=None)
        for each in events:
            rows, disorder = each.rows(base)
            written.append(rows)
            unordered, unknown, impossible = unordered + disorder, unknown + each.unknown, impossible + each.impossible
    counts = TraceReport(0, 0, 0, unordered_events=unordered, unknown_events=unknown)
    trace = clean(_joined_rows(written), policy, keep_empty=True, report=counts)
    trace = replace(trace, report=replace(trace.report, impossible=trace.report.impossible + impossible))
    if cleaning is not None:
        trace = cleaning.apply(trace)
    plain = len(tables) == 1 and tables[0].plain
    return Imported(trace, base, plain, extent(list(trace.conditions.values()), windows=trace.seen).stray)


def _joined_rows(parts: Sequence[TraceRows]) -> TraceRows:
    """Put the rows of several files together; devices of the same name are one."""
    if len(parts) == 1:
        return parts[0]
    number: dict[str, int] = {}
    owners = [
        np.array([number.setdefault(name, len(number)) for name in part.names], dtype=np.int64)[part.devices]
        for part in parts
    ]
    starts, ends, conditions = (
        np.concatenate([getattr(part, column) for part in parts]) for column in ("starts", "ends", "conditions")
    )
    seen = None
    if any(part.seen is not None for part in parts):
        seen = np.full((len(number), 3), np.nan)
        for part in parts:
            at = [number[name] for name in part.names]
            for column, pick in enumerate((np.fmin, np.fmax, np.fmax)):
                seen[at, column] = pick(seen[at, column], np.nan if part.seen is None else part.seen[:, column])
    source = ", ".join(part.source for part in parts[:3])
    return TraceRows(tuple(number), np.concatenate(owners), starts, ends, conditions, source, seen=seen)


def _kind(path: Path) -> str:
    """Return the suffix of a file, that before ``.gz`` where it is packed."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def _read_file(
    path: Path, form: Form, policy: Policy, columns: Mapping[str, str] | None
) -> TraceRows | Events | ForeignTable:
    if form == "table" or (form == "auto" and _kind(path) in SUFFIXES):
        return read_foreign_table(path, columns, lenient=policy == "lenient")
    if columns:
        raise TraceError("is no table, so that it has no columns to be named", str(path))
    data = _bytes(path)
    if data[:1] == b"\x80":
        raise TraceError("is not text, but perhaps a pickle; see examples/converters", str(path), 1, 1)
    begin = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if form == "json" or (form == "auto" and begin in {b"{", b"["}):
        return read_json(path, _text(path, data), lenient=policy == "lenient")
    events = Events(str(path), policy == "lenient")
    text = _text(path, data)
    first = next((line for line in text.split("\n", 1000) if line.strip()), "")
    if first.count("\t") == 2:
        events.add(text)
    elif form == "tsv" or "\t" in first:
        events.add(text, path.stem)
    else:
        message = 'is neither CSV, Parquet, JSON ({"device": [[start, end], ...]}) nor lines of timestamp<TAB>event'
        raise TraceError(message, str(path), 1, 1)
    return events


def _read_folder(path: Path, form: Form, policy: Policy) -> Events:
    if form not in ("auto", "tsv"):
        raise TraceError("is a folder; only text has a file for each device", str(path))
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
    """Return the content of a file; a `TraceError` says why it cannot be read."""
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
        before = data[:bad].decode("utf-8", "replace")
        raise TraceError(f"is not text: {reason}", str(path), *position(before, len(before)))
    return text


def write_trace(path: Path, trace: CleanTrace) -> None:
    """Write a trace as CSV, where the name ends so, else as Parquet; devices without intervals get an empty row.

    Raises a `RunError` if it cannot be written.
    """
    names = pl.Series("device", trace.names, dtype=pl.String)
    parts = []
    for condition, spans in trace.spans.items():
        part = {"device": names.gather(spans.who), "start_s": spans.starts_s, "end_s": spans.ends_s}
        parts.append(pl.DataFrame(part).with_columns(condition=pl.lit(condition)))
    table = pl.concat(parts)
    without = names.filter(~names.is_in(table["device"].unique().to_list()))
    bare = pl.DataFrame({"device": without}).with_columns(condition=pl.lit(next(iter(trace.spans))))
    never = [name for name, spans in trace.spans.items() if not len(spans.who)]  # conditions that are never on
    named = pl.DataFrame({"device": [trace.names[0]] * len(never), "condition": never}, schema=bare.schema)
    table = pl.concat([table, bare, named], how="diagonal")
    if set(trace.spans) == {"available"}:
        table = table.drop("condition")
    if trace.seen is not None:
        about = pl.DataFrame(trace.seen, schema=list(SEEN)).fill_nan(None).with_columns(device=names)
        about = about.select("device", *(name for name in SEEN if about[name].count()))
        table = table.join(about, on="device", how="left", maintain_order="left")
    if path.suffix.lower() == ".csv":
        write_bytes(path, table.write_csv().encode())
    else:
        write_table(path, table)
