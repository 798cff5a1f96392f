"""The plain trace file: CSV or Parquet with the columns device, start_s, end_s and, if wanted, condition."""

import csv
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from fedsim.availability.trace.rows import CONDITIONS, MOST_INTERVALS, TraceError, TraceRows
from fedsim.common.hints import did_you_mean
from fedsim.common.memory import packed_as, too_much

LARGEST_FILE = 512 * 2**20
_DATE = r"^\s*\d{4}-\d\d"
_COLUMNS = ("device", "start_s", "end_s", "condition")
_OWN_NAMES = {"device": "device", "condition": "condition"}
_LONGEST_NAME = 1000
_BYTES_OF_A_ROW = 110  # while it is read and laid out


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
    except (PolarsError, PanicException) as error:
        message = str(error).strip().partition("\n")[0]
        raise TraceError(f"is not a readable {'Parquet' if parquet else 'CSV'} file: {message}", source) from None
    if not len(table):
        raise TraceError("has no rows", source)
    return rows_of(table, path, 0 if parquet else 2)


def check_file(path: Path) -> None:
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
    if status.st_size > LARGEST_FILE:
        raise TraceError(f"is larger than {LARGEST_FILE // 2**20} MiB", source)


def _check_columns(columns: list[str], source: str, line: int) -> None:
    unknown = [name for name in columns if name not in _COLUMNS]
    missing = [name for name in _COLUMNS[:3] if name not in columns]
    if unknown:
        message = f"has the unknown column {unknown[0]!r}{did_you_mean(unknown[0], _COLUMNS, or_known=True)}"
        if len(missing) > 1:  # no slip, but a table of another form
            message += "; fedsim trace import makes a trace of a table with other columns"
    elif missing:
        message = f"has no column {missing[0]!r}; a trace has device, start_s, end_s and, if wanted, condition"
    elif len(set(columns)) < len(columns):
        message = f"has a column twice: {', '.join(columns)}"
    else:
        return
    raise TraceError(message, source, line, line)


def _read_parquet(path: Path) -> pl.DataFrame:
    source = str(path)
    schema = pl.read_parquet_schema(path)
    _check_columns(list(schema), source, 0)
    for name in ("start_s", "end_s"):
        if not schema[name].is_numeric():
            raise TraceError(f"column {name!r} holds {schema[name]}, not numbers of seconds", source)
    if not (schema["device"].is_integer() or schema["device"] in (pl.String, pl.Categorical, pl.Enum)):
        raise TraceError(f"column 'device' holds {schema['device']}, not text or whole numbers", source)
    lazy = pl.scan_parquet(path)
    _check_size(int(lazy.select(pl.len()).collect().item()), MOST_INTERVALS, source)
    text = [pl.col(name).cast(pl.String) for name in ("device", "condition") if name in schema]
    return lazy.select(*text, pl.col("start_s", "end_s").cast(pl.Float64)).collect()


def _check_size(count: int, most: int, source: str) -> None:
    if count > most:
        raise TraceError(f"has {count:,} rows; at most {MOST_INTERVALS:,} are possible", source)
    if why := too_much(_BYTES_OF_A_ROW * count):
        raise TraceError(f"has {count:,} rows, which {why}", source)


def _read_csv(path: Path) -> pl.DataFrame:
    if packed := packed_as(path):
        raise TraceError(f"is compressed ({packed}); unpack it, or write Parquet", str(path), 1, 1)
    with path.open("rb") as file:
        head = file.readline(10_000)
        count = 0
        while block := file.read(2**24):
            count += block.count(b"\n")
    _check_size(count, MOST_INTERVALS + 1, str(path))
    try:
        columns = next(csv.reader([head.decode("utf-8-sig").strip()]), [])
    except (UnicodeDecodeError, csv.Error):
        raise TraceError("is not CSV text: its first line cannot be read", str(path), 1, 1) from None
    _check_columns(columns, str(path), 1)
    table = pl.read_csv(path, infer_schema=False)
    numbers = table.with_columns(pl.col("start_s", "end_s").str.strip_chars().cast(pl.Float64, strict=False))
    for name in ("start_s", "end_s"):
        bad = table[name].is_not_null() & numbers[name].is_null()
        message = name + " must be a number of seconds, not {!r}"
        if table[name].filter(bad).head(1).str.contains(_DATE).any():
            message += "; fedsim trace import makes a trace of a table with dates"
        _refuse_first(bad, table[name], path, 2, message)
    return numbers


def rows_of(table: pl.DataFrame, path: Path, line_of_first: int, names: Mapping[str, str] = _OWN_NAMES) -> TraceRows:
    """Return the rows of a table with the columns device, start_s, end_s and, if it has one, condition.

    `names` are those that its columns have in the file; `line_of_first` is 0 where it is no text file. Raises a
    `TraceError` if a device is missing or too long, or a condition is unknown.
    """
    source, devices = str(path), table["device"]
    empty = f"{names['device']} must not be empty"
    _refuse_first(devices.is_null(), devices, path, line_of_first, empty)
    longest = devices.str.len_bytes().max()
    if isinstance(longest, int) and longest > _LONGEST_NAME:
        raise TraceError(f"has a device name of {longest:,} bytes; at most {_LONGEST_NAME:,} are possible", source)
    if "condition" not in table.columns:
        table = table.with_columns(condition=pl.lit(CONDITIONS[0]))
    codes = table["condition"].cast(pl.Enum(CONDITIONS), strict=False)
    message = f"{names.get('condition')} must be one of {', '.join(CONDITIONS)}, not {{!r}}"
    _refuse_first(codes.is_null(), table["condition"], path, line_of_first, message, CONDITIONS)
    known = devices.unique(maintain_order=True)
    return TraceRows(
        names=tuple(known.to_list()),
        devices=devices.cast(pl.Enum(known)).to_physical().cast(pl.Int64).to_numpy(),
        starts=table["start_s"].fill_null(np.nan).to_numpy(),
        ends=table["end_s"].fill_null(np.nan).to_numpy(),
        conditions=codes.to_physical().cast(pl.Int8).to_numpy(),
        source=source,
        line_of_first=line_of_first,
    )


def _refuse_first(
    bad: pl.Series, texts: pl.Series, path: Path, line_of_first: int, message: str, known: Sequence[str] = ()
) -> None:
    if bad.any():
        row = int(bad.arg_max() or 0)
        hint = did_you_mean(texts[row], known, or_known=True) if texts[row] else ""
        refuse_row(row, texts[row] or "", path, line_of_first, message.format(texts[row]) + hint)


def refuse_row(row: int, text: str, path: Path, line_of_first: int, message: str) -> NoReturn:
    """Refuse a row: in a CSV file with its line, and the column where a text of it stands."""
    if not line_of_first:
        raise TraceError(f"row {row}: {message}", str(path))
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        line = next(islice(file, row + 1, None), "")
    raise TraceError(message, str(path), line_of_first + row, max(line.find(text) + 1, 1))
