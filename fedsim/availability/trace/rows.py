"""A trace as rows of (device, start, end, condition): its file, its faults, and what is left without them.

The file is CSV or Parquet with the columns device, start_s, end_s and, if wanted, condition.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import FedsimError
from fedsim.common.files import UNREADABLE
from fedsim.common.formatting import count
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import DAY_S, each_to_ms
from fedsim.common.memory import packed_as, too_much
from fedsim.common.regular_files import open_regular, regular

Policy: TypeAlias = Literal["repair", "strict", "lenient"]
"""repair: faults that have one sensible remedy are remedied, times that cannot be are refused; strict: any fault is
refused; lenient: intervals with impossible times are dropped too."""

LONGEST_S = 100 * 366 * DAY_S
"""Times beyond this many seconds from the base are a wrong unit or a wrong number."""
MOST_INTERVALS = 10_000_000
MOST_DEVICES = 5_000_000
LARGEST_FILE = 512 * 2**20
_DATE = r"^\s*\d{4}-\d\d"
SEEN = ("seen_from_s", "seen_to_s", "cycle_s")
"""Optional columns: when a device was observed, and after how many seconds its intervals repeat."""
SHORTEST_CYCLE_S = 60.0
_COLUMNS = ("device", "start_s", "end_s", "condition", *SEEN)
_OWN_NAMES = {name: name for name in ("device", "condition", *SEEN)}
_OPTIONAL = f"{', '.join(_COLUMNS[3:-1])} and {_COLUMNS[-1]}"
LONGEST_NAME = 1000
_BYTES_OF_A_ROW = 110  # while it is read and laid out


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
    events occur in the text form only, and the last four only in an import.
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
    unseen: int = 0
    unordered_events: int = 0
    unknown_events: int = 0
    far: int = 0
    outside: int = 0
    gaps: int = 0
    short: int = 0

    def faults(self) -> list[str]:
        """Say each kind of fault and its remedy in words; empty for a trace without any."""
        kinds = [
            (self.empty, "interval", "of zero length, dropped"),
            (self.negative, "interval", "ending before the start, dropped"),
            (self.overlapping, "interval", "overlapping an earlier one, merged"),
            (self.impossible, "interval", "with an impossible time, dropped"),
            (self.devices_without, "device", "without any interval"),
            (self.unseen, "interval", "reaching beyond when the device was observed, cut"),
            (self.unordered_events, "event", "out of order, sorted"),
            (self.unknown_events, "event", "of unknown meaning, left out"),
            (self.far, "interval", "with a time far from all others, dropped"),
            (self.outside, "interval", "outside of the part that is kept, dropped"),
            (self.gaps, "short gap", "closed"),
            (self.short, "short interval", "dropped"),
        ]
        return [f"{count(number, noun)} {what}" for number, noun, what in kinds if number]

    def __str__(self) -> str:
        text = f"{count(self.intervals, 'interval')} of {count(self.devices, 'device')}"
        return f"{text}; {'; '.join(self.faults())}" if self.faults() else text


CONDITIONS = ("available", "charging", "network", "idle")
UNKNOWN = "unknown"
"""In the place of a condition: nothing is known of the device then, as after a phone was off."""
STATES = (*CONDITIONS, UNKNOWN)


@dataclass(frozen=True)
class TraceRows:
    """A trace as it is written: n rows, and the names of the devices in order of appearance.

    `devices` and `conditions` (n,) are indices into `names` and `STATES`; `starts` and `ends` (n,) are seconds
    since the base, NaN and other impossible values included. `line_of_first` is the line of row 0 where each row is a
    line of a text file, else 0. `seen` (devices, 3) are the columns `SEEN`, NaN where unknown; None without them.
    """

    names: tuple[str, ...]
    devices: Ints
    starts: Floats
    ends: Floats
    conditions: NDArray[np.int8]
    source: str = ""
    line_of_first: int = 0
    seen: Floats | None = None


@dataclass(frozen=True)
class CleanTrace:
    """A trace without faults: for each of `STATES` in the file the intervals of every device, `Spells.joined`.

    `spans` are in milliseconds since the base, each time rounded once, `names` in the order of the file; `report` says
    what was wrong, and what was done; `seen` is as in `TraceRows`.
    """

    names: tuple[str, ...]
    spans: Mapping[str, Spells]
    report: TraceReport
    seen: Floats | None = None

    @property
    def conditions(self) -> dict[str, Spells]:
        """Those of `spans` that say when a condition holds; none does where it is unknown."""
        return {name: spans for name, spans in self.spans.items() if name != UNKNOWN}


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
    for size, most, noun in sizes:
        if size > most:
            raise TraceError(f"has {size:,} {noun}; at most {most:,} are possible", rows.source)
    missing = np.isnan(rows.starts) & np.isnan(rows.ends)
    with np.errstate(invalid="ignore"):
        possible = (np.abs(rows.starts) <= LONGEST_S) & (np.abs(rows.ends) <= LONGEST_S)
        impossible = ~possible & ~missing
        starts, ends = (each_to_ms(np.where(possible, each, 0.0)) for each in (rows.starts, rows.ends))
    if policy != "lenient" and impossible.any():
        first, others = int(np.argmax(impossible)), int(impossible.sum()) - 1
        and_more = f" (and {others:,} more such intervals)" if others else ""
        message = (
            f"device {rows.names[rows.devices[first]]!r} has the interval [{rows.starts[first]:g}, "
            f"{rows.ends[first]:g}], which is impossible: times are seconds, finite and within 100 years of the "
            f"base{and_more}; with the policy lenient such intervals are dropped"
        )
        raise _refused(rows, impossible, message)
    negative, empty, good = possible & (ends < starts), possible & (ends == starts), possible & (ends > starts)
    unseen = np.zeros(len(good), dtype=np.bool_)
    if rows.seen is not None:
        windows = np.where(np.isnan(rows.seen[:, :2]), [-np.inf, np.inf], rows.seen[:, :2])
        low, high = each_to_ms(windows)[rows.devices].T
        unseen = good & ((starts < low) | (ends > high))
        starts, ends = np.maximum(starts, low), np.minimum(ends, high)
        good &= ends > starts
    spans, overlapping, touching = dict[str, Spells](), 0, 0
    for code, condition in enumerate(CONDITIONS):
        named, part = rows.conditions == code, good & (rows.conditions == code)
        if part.any() or (named & missing).any():  # a condition that is never on is not one that nobody asks for
            apart = Spells(rows.devices[part], starts[part], ends[part], len(rows.names)).joined(0)
            spans[condition] = apart.joined()
            overlapping += int(part.sum()) - len(apart.who)
            touching += len(apart.who) - len(spans[condition].who)
    unknown = good & (rows.conditions == STATES.index(UNKNOWN))
    has = np.zeros(len(rows.names), dtype=np.bool_)
    has[rows.devices[good & ~unknown]] = True
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
        unseen=int(unseen.sum()),
    )
    if policy == "strict" and replace(report, devices_without=0 if keep_empty else report.devices_without).faults():
        raise _refused(
            rows, negative | empty | unseen, f"has faults, and the policy is strict: {'; '.join(report.faults())}"
        )
    if not has.any():
        raise TraceError(f"has no interval that could be used ({report.rows:,} written)", rows.source)
    if unknown.any():
        less = Spells(rows.devices[unknown], starts[unknown], ends[unknown], len(rows.names)).joined()
        spans = {condition: each.less(less).joined() for condition, each in spans.items()} | {UNKNOWN: less}
    return CleanTrace(rows.names, spans, report, rows.seen)


def _refused(rows: TraceRows, which: Bools, message: str) -> TraceError:
    line = rows.line_of_first + int(np.argmax(which)) if rows.line_of_first and which.any() else 0
    return TraceError(message, rows.source, line, 1 if line else 0)


def read_rows(path: Path) -> TraceRows:
    """Read a trace file as it is written.

    Raises a `TraceError` if it is not a file of the documented form.
    """
    source = str(path)
    check_file(path)
    parquet = path.suffix.lower() in {".parquet", ".pq"}
    try:
        table = _read_parquet(path) if parquet else _read_csv(path)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}", source) from None
    except UNREADABLE as error:
        message = str(error).strip().partition("\n")[0]
        raise TraceError(f"is not a readable {'Parquet' if parquet else 'CSV'} file: {message}", source) from None
    if not len(table):
        raise TraceError("has no rows", source)
    return rows_of(table, path, 0 if parquet else 2)


def check_file(path: Path, largest: int = LARGEST_FILE) -> None:
    """Refuse a path that is no regular file, is empty, or is larger than can be read in bounded memory."""
    source = str(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise TraceError(f"there is no file {source!r}") from None
    except OSError as error:
        raise TraceError(str(error.strerror), source) from None
    if not path.is_file():
        raise TraceError("is not a file", source)
    if not status.st_size:
        raise TraceError("is empty", source, 1, 1)
    if status.st_size > largest:
        raise TraceError(f"is larger than {largest // 2**20} MiB", source)
    if path.suffix.lower() == ".csv" and (packed := packed_as(path)):
        raise TraceError(f"is compressed ({packed}); unpack it, or write Parquet", source, 1, 1)


def _check_columns(columns: list[str], source: str, line: int) -> None:
    unknown = [name for name in columns if name not in _COLUMNS]
    missing = [name for name in _COLUMNS[:3] if name not in columns]
    if unknown:
        message = f"has the unknown column {unknown[0]!r}{did_you_mean(unknown[0], _COLUMNS, or_known=True)}"
        if len(missing) > 1:  # no slip, but a table of another form
            message += "; fedsim trace import makes a trace of a table with other columns"
    elif missing:
        message = f"has no column {missing[0]!r}; a trace has device, start_s, end_s and, if wanted, {_OPTIONAL}"
    elif len(set(columns)) < len(columns):
        message = f"has a column twice: {', '.join(columns)}"
    else:
        return
    raise TraceError(message, source, line, line)


def _read_parquet(path: Path) -> pl.DataFrame:
    source = str(path)
    lazy = pl.scan_parquet(regular(path), glob=False)
    schema = lazy.collect_schema()
    _check_columns(list(schema), source, 0)
    numbers = [name for name in _COLUMNS if name in schema and name not in {"device", "condition"}]
    for name in numbers:
        if not schema[name].is_numeric():
            raise TraceError(f"column {name!r} holds {schema[name]}, not numbers of seconds", source)
    if not (schema["device"].is_integer() or schema["device"] in (pl.String, pl.Categorical, pl.Enum)):
        raise TraceError(f"column 'device' holds {schema['device']}, not text or whole numbers", source)
    _check_size(int(lazy.select(pl.len()).collect().item()), source)
    text = [pl.col(name).cast(pl.String) for name in ("device", "condition") if name in schema]
    return lazy.select(*text, pl.col(numbers).cast(pl.Float64)).collect()


def _check_size(rows: int, source: str) -> None:
    if rows > MOST_INTERVALS:
        raise TraceError(f"has {rows:,} rows; at most {MOST_INTERVALS:,} are possible", source)
    if why := too_much(_BYTES_OF_A_ROW * rows):
        raise TraceError(f"has {rows:,} rows, which {why}", source)


def _read_csv(path: Path) -> pl.DataFrame:
    with open_regular(path) as file:
        head = file.readline(10_000)
    try:
        columns = next(csv.reader([head.decode("utf-8-sig").strip()]), [])
    except (UnicodeDecodeError, csv.Error):
        raise TraceError("is not CSV text: its first line cannot be read", str(path), 1, 1) from None
    _check_columns(columns, str(path), 1)
    _check_size(int(pl.scan_csv(path, infer_schema=False, glob=False).select(pl.len()).collect().item()), str(path))
    table = pl.read_csv(path, infer_schema=False, glob=False)
    timed = [name for name in columns if name not in {"device", "condition"}]
    numbers = table.with_columns(pl.col(timed).str.strip_chars().cast(pl.Float64, strict=False))
    for name in timed:
        bad = table[name].is_not_null() & numbers[name].is_null()
        message = name + " must be a number of seconds, not {!r}"
        if table[name].filter(bad).head(1).str.contains(_DATE).any():
            message += "; fedsim trace import makes a trace of a table with dates"
        _refuse_first(bad, table[name], path, 2, message)
    return numbers


def rows_of(table: pl.DataFrame, path: Path, line_of_first: int, names: Mapping[str, str] = _OWN_NAMES) -> TraceRows:
    """Return the rows of a table with the columns device, start_s, end_s and, if it has them, condition and `SEEN`.

    `names` are those that its columns have in the file; `line_of_first` is 0 where it is no text file. Raises a
    `TraceError` if a device is missing or too long, a condition is unknown, or when a device was observed impossible.
    """
    source, devices = str(path), table["device"]
    empty = f"{names['device']} must not be empty"
    _refuse_first(devices.is_null(), devices, path, line_of_first, empty)
    longest = devices.str.len_bytes().max()
    if isinstance(longest, int) and longest > LONGEST_NAME:
        raise TraceError(f"has a device name of {longest:,} bytes; at most {LONGEST_NAME:,} are possible", source)
    if "condition" not in table.columns:
        table = table.with_columns(condition=pl.lit(CONDITIONS[0]))
    codes = table["condition"].cast(pl.Enum(STATES), strict=False)
    message = f"{names.get('condition')} must be one of {', '.join(STATES)}, not {{!r}}"
    _refuse_first(codes.is_null(), table["condition"], path, line_of_first, message, STATES)
    distinct = devices.unique(maintain_order=True)
    return TraceRows(
        names=tuple(distinct.to_list()),
        devices=devices.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).to_numpy(),
        starts=table["start_s"].fill_null(np.nan).to_numpy(),
        ends=table["end_s"].fill_null(np.nan).to_numpy(),
        conditions=codes.to_physical().cast(pl.Int8).to_numpy(),
        source=source,
        line_of_first=line_of_first,
        seen=_seen(table, path, line_of_first, names),
    )


def _seen(table: pl.DataFrame, path: Path, line_of_first: int, names: Mapping[str, str]) -> Floats | None:
    """(devices, 3) when each device was observed, and its cycle, which all of its rows give that give any."""
    given = [name for name in SEEN if name in table.columns]
    if not given:
        return None
    table = table.select("device", pl.col(given).fill_nan(None)).with_row_index("row")
    first, last = (table.group_by("device", maintain_order=True).agg(pick) for pick in (pl.all().min(), pl.all().max()))
    seen = np.full((len(first), len(SEEN)), np.nan)
    for column, name in enumerate(SEEN):
        if name in given:
            seen[:, column] = first[name].fill_null(np.nan).to_numpy()
            several = (first[name] != last[name]).fill_null(value=False)
            message = f"device {{!r}} has two values of {names[name]}; a device has one"
            _refuse_device(first, several, path, line_of_first, message)
    with np.errstate(invalid="ignore"):
        wild = (np.abs(seen) > LONGEST_S).any(axis=1) | (seen[:, 0] > seen[:, 1])
        short = seen[:, 2] < SHORTEST_CYCLE_S
    headings = [names.get(name, name) for name in SEEN]
    for bad, message in (
        (wild, f"{headings[0]} and {headings[1]} must be in order, and within 100 years of the base"),
        (short, f"{headings[2]} must be at least {SHORTEST_CYCLE_S:.0f} seconds"),
    ):
        _refuse_device(first, pl.Series(bad), path, line_of_first, f"device {{!r}}: {message}")
    return seen


def _refuse_device(devices: pl.DataFrame, bad: pl.Series, path: Path, line_of_first: int, message: str) -> None:
    if bad.any():
        row, name = devices.select("row", "device").row(int(bad.arg_max() or 0))
        refuse_row(row, name, path, line_of_first, message.format(name))


def _refuse_first(
    bad: pl.Series, texts: pl.Series, path: Path, line_of_first: int, message: str, choices: Sequence[str] = ()
) -> None:
    if bad.any():
        row = int(bad.arg_max() or 0)
        hint = did_you_mean(texts[row], choices, or_known=True) if texts[row] else ""
        refuse_row(row, texts[row] or "", path, line_of_first, message.format(texts[row]) + hint)


def refuse_row(row: int, text: str, path: Path, line_of_first: int, message: str) -> NoReturn:
    """Refuse a row: in a text file with its line and, unless that is packed, the column where a text of it stands."""
    if not line_of_first:
        raise TraceError(f"row {row}: {message}", str(path))
    line = ""
    if path.suffix.lower() != ".gz":
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            line = next(islice(file, line_of_first + row - 1, None), "")
    raise TraceError(message, str(path), line_of_first + row, max(line.find(text) + 1, 1))
