"""Traces as CSV or Parquet with columns of any name, and times as numbers of seconds or as dates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from fedsim.availability.trace.bulk import bulk
from fedsim.availability.trace.rows import MOST_INTERVALS, TraceError, TraceRows, check_file, refuse_row, rows_of
from fedsim.common.arrays import Floats
from fedsim.common.files import UNREADABLE
from fedsim.common.hints import did_you_mean
from fedsim.traces.text_forms import read_instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUFFIXES = (".csv", ".parquet", ".pq")
_USUAL = {
    "device": "device",
    "start": "start_s",
    "end": "end_s",
    "condition": "condition",
    "seen_from": "seen_from_s",
    "seen_to": "seen_to_s",
    "cycle": "cycle_s",
}
_NEEDED = ("device", "start", "end")
ROLES = tuple(_USUAL)


@dataclass(frozen=True)
class ForeignTable:
    """A table as it is written, with times in seconds since the base, or since 1970 where they are dates.

    `kind` is how times are written: ``numeric``, ``civil`` (dates without a zone) or ``zoned``; `plain` says that
    scenarios can name the file as it is.
    """

    rows: TraceRows
    kind: str
    plain: bool


def scan_table(path: Path) -> pl.LazyFrame:
    """Open a table whose columns are read where they are asked for; those of a CSV file are text."""
    if path.suffix.lower() == ".csv":
        return pl.scan_csv(path, infer_schema=False, glob=False)
    return pl.scan_parquet(path, glob=False)


def read_foreign_table(
    path: Path,
    columns: Mapping[str, str] | None = None,
    *,
    lenient: bool = False,
    says: Mapping[str, str] | None = None,
) -> ForeignTable:
    """Read a CSV or Parquet file.

    `columns` has the name of the column for each of `ROLES`; other columns are ignored. By default, and where one is
    not given: device, start_s, end_s and, if there are such, condition, seen_from_s, seen_to_s and cycle_s. A time that
    cannot be read is a missing one if `lenient`. `says` has the words for roles in messages, if others. Raises a
    `TraceError` with the row of what is wrong.
    """
    check_file(path)
    source, csv = str(path), path.suffix.lower() == ".csv"
    try:
        lazy = scan_table(path)
        schema = lazy.collect_schema()
        names = _names(schema.names(), columns, source, says or {})
        count = int(lazy.select(pl.len()).collect().item())
        if not 0 < count <= MOST_INTERVALS:
            raise TraceError(f"has {count:,} rows; 1 to {MOST_INTERVALS:,} are possible", source)
        table = lazy.select(pl.col(name).alias(role) for role, name in names.items()).collect()
    except UNREADABLE as error:
        message = str(error).strip().partition("\n")[0]
        raise TraceError(f"is not a readable {'CSV' if csv else 'Parquet'} file: {message}", source) from None
    for role in {"device", "condition"} & {*names}:
        if (dtype := table.schema[role]).is_nested() or dtype in (pl.Binary, pl.Object):
            raise TraceError(f"column {names[role]!r} holds {dtype}, neither text nor numbers", source)
    first = 2 if csv else 0
    table = table.with_columns(pl.col("device").cast(pl.String))
    timed = {
        role: _times(table[role], path, name, first, lenient)
        for role, name in names.items()
        if role not in {"device", "condition"}
    }
    kinds = {role: kind for role, (kind, _) in timed.items()}
    if kinds.pop("cycle", "numeric") not in {"numeric", ""}:
        raise TraceError(f"column {names['cycle']!r} holds dates, not numbers of seconds", source)
    known = {kind for kind in kinds.values() if kind}
    if len(known) > 1:
        told = " and ".join(f"{names[role]} as {kind} times" for role, kind in kinds.items() if kind)
        raise TraceError(f"writes {told}", source)
    if "condition" in names:
        table = table.with_columns(pl.col("condition").cast(pl.String))
    seconds = {_USUAL[role]: pl.Series(values) for role, (_, values) in timed.items()}
    own = {_USUAL[role]: name for role, name in names.items()}
    rows = rows_of(table.with_columns(**seconds), path, first, own)
    kind = next(iter(known), "numeric")
    return ForeignTable(rows, kind, kind == "numeric" and set(schema.names()) <= set(_USUAL.values()) and not columns)


def _names(found: list[str], columns: Mapping[str, str] | None, source: str, says: Mapping[str, str]) -> dict[str, str]:
    given = columns or {}
    names = {
        role: given.get(role, usual)
        for role, usual in _USUAL.items()
        if role in given or role in _NEEDED or usual in found
    }
    for role, name in names.items():
        if name not in found:
            message = (
                f"has no column {name!r}{did_you_mean(name, found)}; it has {', '.join(found)[:200]}. "
                f"--columns {says.get(role, role)}=NAME says which one it is"
            )
            raise TraceError(message, source)
    return names


def _times(written: pl.Series, path: Path, name: str, first: int, lenient: bool) -> tuple[str, Floats]:
    """Return how the times of a column are written (empty where there are none), and their seconds."""
    dtype = written.dtype
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        stamps = written.cast(pl.Datetime("us", getattr(dtype, "time_zone", None)))
        kind = "zoned" if getattr(dtype, "time_zone", None) else "civil"
        return kind, (stamps.to_physical().cast(pl.Float64) / 1e6).fill_null(np.nan).to_numpy()
    if dtype.is_numeric():
        return "numeric", written.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if dtype != pl.String:
        raise TraceError(f"column {name!r} holds {dtype}, not numbers of seconds or dates", str(path))
    texts = written.str.strip_chars().replace("", None)
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() == texts.null_count():
        return ("numeric" if texts.null_count() < len(texts) else ""), numbers.fill_null(np.nan).to_numpy()
    known, seconds = "", np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        kind, seconds[row] = read_instant(text) if text is not None else ("", np.nan)
        if text is None or (lenient and not kind):
            seconds[row] = np.nan
            continue
        if not kind:
            message = f"must be a number of seconds or a date such as 2020-01-31 08:15:00, not {text[:40]!r}"
            refuse_row(row, text, path, first, f"{name} {message}")
        if known and kind != known:
            message = f"{name} is a {kind} time, {text[:40]!r}, and those before are {known} ones"
            refuse_row(row, text, path, first, message)
        known = kind
    return known.replace("number", "numeric"), seconds


def since_base(tables: Sequence[ForeignTable], base: datetime | None) -> tuple[list[TraceRows], datetime | None]:
    """Return rows with times in seconds since the base, and the base: by default midnight before the first date.

    Dates without a zone are read at the base's own offset and keep their time of day. Dates far from all others do not
    count for the default. Raises a `TraceError` if the tables write times in different ways.
    """
    kinds = {table.kind: table.rows.source for table in tables}
    if len(kinds) > 1:
        (one, first), (two, second), *_ = kinds.items()
        raise TraceError(f"has {two} times, and {first} has {one} ones", second)
    if "numeric" in kinds:
        return [table.rows for table in tables], base
    if base is None:
        times = np.concatenate([column for table in tables for column in (table.rows.starts, table.rows.ends)])
        base = _EPOCH + timedelta(days=bulk(times[np.isfinite(times)])[0] // 86_400)
    second_0 = (base.replace(tzinfo=UTC) if "civil" in kinds else base).timestamp()
    rows = (table.rows for table in tables)
    return [
        replace(
            each,
            starts=each.starts - second_0,
            ends=each.ends - second_0,
            seen=None if each.seen is None else each.seen - [second_0, second_0, 0.0],
        )
        for each in rows
    ], base
