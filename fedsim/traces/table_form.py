"""Traces as CSV or Parquet with columns of any name, and times as numbers of seconds or as dates."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from fedsim.availability.trace.bulk import bulk
from fedsim.availability.trace.rows import (
    LARGEST_FILE,
    MOST_INTERVALS,
    TraceError,
    TraceRows,
    check_file,
    refuse_row,
    rows_of,
)
from fedsim.common.files import UNREADABLE
from fedsim.common.hints import did_you_mean
from fedsim.common.memory import free_bytes
from fedsim.common.regular_files import open_regular
from fedsim.scenario.log import CHECK_IN_ROLES
from fedsim.traces.text_forms import read_instant

_LARGEST_PACKED = 4 * 2**30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUFFIXES = (".csv", ".parquet", ".pq", ".ndjson", ".jsonl")
"""Of tables, also with ``.gz`` behind them."""
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
SINCE_1970 = {"ns": 1e17, "us": 1e14, "ms": 1e11, "s": 5e8}
"""Numbers at least so large are of that unit since 1970."""
_USUAL = {role: role if role in {"device", "condition"} else f"{role}_s" for role in CHECK_IN_ROLES}
_NEEDED = CHECK_IN_ROLES[:3]


@dataclass(frozen=True)
class ForeignTable:
    """A table as it is written, with times in seconds since the base, or since 1970 where they are dates.

    `kind` is how times are written: ``numeric``, ``civil`` (dates without a zone) or ``zoned``, also since 1970;
    `plain` says that scenarios can name the file as it is.
    """

    rows: TraceRows
    kind: str
    plain: bool


def scan_table(path: Path, largest: int = LARGEST_FILE) -> tuple[pl.LazyFrame, int]:
    """Open a table whose columns are read where they are asked for; those of CSV are text.

    Also returned is the line of the first row, 0 where rows are no lines. Raises a `TraceError`.
    """
    check_file(path, largest)
    kinds = [each.lower() for each in path.suffixes]
    packed = kinds[-1:] == [".gz"]
    kind = next(iter(kinds[-1 - packed :]), "")
    try:
        source: Any = _unpacked(path) if packed else path
        if kind in {".ndjson", ".jsonl"}:
            lines = pl.read_ndjson(source, infer_schema_length=10_000) if packed else None
            return (pl.scan_ndjson(path, infer_schema_length=10_000) if lines is None else lines.lazy()), 1
        if kind in {".parquet", ".pq"}:
            return pl.scan_parquet(path, glob=False), 0
        if packed:
            return pl.read_csv(source, infer_schema=False).lazy(), 2
        return pl.scan_csv(path, infer_schema=False, glob=False), 2
    except UNREADABLE as error:
        raise TraceError(str(error).strip().partition("\n")[0], str(path)) from None


def _unpacked(path: Path) -> bytes:
    """Return what is in a gzipped file, unless that is more than the memory is to hold."""
    free = free_bytes()
    most = _LARGEST_PACKED if free is None else min(_LARGEST_PACKED, free // 4)
    with open_regular(path) as opened, gzip.open(opened) as unpacking:
        try:
            data = unpacking.read(most + 1)
        except (EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
            raise TraceError(f"is not a whole gzip file: {error}", str(path)) from None
    if len(data) > most:
        raise TraceError(f"unpacks to more than {most // 2**20:,} MiB; write Parquet", str(path))
    return data


def read_foreign_table(path: Path, columns: Mapping[str, str] | None = None, *, lenient: bool = False) -> ForeignTable:
    """Read a CSV or Parquet file.

    `columns` has the name of the column for each of `CHECK_IN_ROLES`; other columns are ignored. By default, and where
    one is not given: device, start_s, end_s and, if there are such, condition, seen_from_s, seen_to_s and cycle_s. A
    time that cannot be read is a missing one if `lenient`. Raises a `TraceError` with the row of what is wrong.
    """
    source = str(path)
    lazy, first = scan_table(path)
    try:
        schema = lazy.collect_schema()
        names = _names(schema.names(), columns, source)
        count = int(lazy.select(pl.len()).collect().item())
        if not 0 < count <= MOST_INTERVALS:
            raise TraceError(f"has {count:,} rows; 1 to {MOST_INTERVALS:,} are possible", source)
        table = lazy.select(pl.col(name).alias(role) for role, name in names.items()).collect()
    except UNREADABLE as error:
        message = str(error).strip().partition("\n")[0]
        raise TraceError(f"is not a readable {('Parquet', 'NDJSON', 'CSV')[first]} file: {message}", source) from None
    for role in {"device", "condition"} & {*names}:
        if (dtype := table.schema[role]).is_nested() or dtype in (pl.Binary, pl.Object):
            raise TraceError(f"column {names[role]!r} holds {dtype}, neither text nor numbers", source)
    table = table.with_columns(pl.col("device").cast(pl.String))

    def refuse(row: int, text: str, message: str) -> NoReturn:
        refuse_row(row, text, path, first, message)

    timed = {
        role: read_times(table[role], name, path, refuse, lenient=lenient)
        for role, name in names.items()
        if role not in {"device", "condition"}
    }
    kinds = {role: kind for role, (kind, _) in timed.items()}
    if kinds.pop("cycle", "numeric") not in {"numeric", ""}:
        raise TraceError(f"column {names['cycle']!r} holds dates, not numbers of seconds", source)
    ways = {kind for kind in kinds.values() if kind}
    if len(ways) > 1:
        columns_in_words = " and ".join(f"{names[role]} as {kind} times" for role, kind in kinds.items() if kind)
        raise TraceError(f"writes {columns_in_words}", source)
    usual = timed["start"][1].drop_nans().median() if ways == {"numeric"} else None
    unit = next((unit for unit, least in SINCE_1970.items() if isinstance(usual, float) and usual >= least), None)
    if unit is not None:
        ways = {"zoned"}
        timed |= {role: ("zoned", values / UNITS[unit]) for role, (_, values) in timed.items() if role != "cycle"}
    if "condition" in names:
        table = table.with_columns(pl.col("condition").cast(pl.String))
    seconds = {_USUAL[role]: values for role, (_, values) in timed.items()}
    labels = {_USUAL[role]: name for role, name in names.items()}
    rows = rows_of(table.with_columns(**seconds), path, first, labels)
    kind = next(iter(ways), "numeric")
    return ForeignTable(rows, kind, kind == "numeric" and set(schema.names()) <= set(_USUAL.values()) and not columns)


def _names(there: list[str], columns: Mapping[str, str] | None, source: str) -> dict[str, str]:
    given = columns or {}
    names = {
        role: given.get(role, usual)
        for role, usual in _USUAL.items()
        if role in given or role in _NEEDED or usual in there
    }
    for role, name in names.items():
        if name not in there:
            message = (
                f"has no column {name!r}{did_you_mean(name, there)}; it has {', '.join(there)[:200]}. "
                f"--columns {role}=NAME, of check-ins --check-in-columns {role}=NAME, says which one it is"
            )
            raise TraceError(message, source)
    return names


def read_times(
    written: pl.Series, name: str, path: Path, refuse: Callable[[int, str, str], NoReturn], *, lenient: bool = False
) -> tuple[str, pl.Series]:
    """Return how the times of a column are written, and their numbers or, of dates, their seconds since 1970.

    They are ``numeric``, ``civil`` (dates without a zone) or ``zoned``; empty where there are none. `refuse` gets the
    row of what is wrong, its text and a message; if `lenient`, what cannot be read is a missing time.
    """
    dtype = written.dtype
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        zoned = getattr(dtype, "time_zone", None) is not None
        stamps = written.cast(pl.Datetime("us", getattr(dtype, "time_zone", None)))
        return "zoned" if zoned else "civil", stamps.to_physical().cast(pl.Float64) / 1e6
    if dtype.is_numeric():
        return "numeric", written.cast(pl.Float64)
    if dtype != pl.String:
        raise TraceError(f"column {name!r} holds {dtype}, not numbers of seconds or dates", str(path))
    texts = written.str.strip_chars().replace("", None)
    by_kind = {"numeric": texts.cast(pl.Float64, strict=False)}
    seconds = by_kind["numeric"]
    if seconds.null_count() == texts.null_count():
        return ("numeric" if texts.null_count() < len(texts) else ""), seconds
    usual = texts.str.replace(r"\s*(UTC|GMT|Z|z)$", "+00:00").str.replace(r"^(\d{4}-\d\d-\d\d)\s+", "${1}T")
    for kind, zone in (("zoned", "%z"), ("civil", "")):
        if seconds.null_count() > texts.null_count():
            stamps = usual.str.to_datetime(
                f"%Y-%m-%dT%H:%M:%S%.f{zone}", time_unit="us", time_zone="UTC" if zone else None, strict=False
            )
            by_kind[kind] = stamps.to_physical().cast(pl.Float64) / 1e6
            seconds = pl.select(pl.coalesce(seconds, by_kind[kind])).to_series()
    if (odd := seconds.is_null() & texts.is_not_null()).any():  # in another form of ISO 8601
        read = {text: read_instant(text) for text in usual.filter(odd).unique()}
        for kind in ("zoned", "civil"):
            instants = {text: value for text, (how, value) in read.items() if how == kind}
            values = usual.replace_strict(instants, default=None, return_dtype=pl.Float64) if instants else None
            if values is not None:
                by_kind[kind] = pl.select(pl.coalesce(by_kind[kind], values) if kind in by_kind else values).to_series()
                seconds = pl.select(pl.coalesce(seconds, values)).to_series()
    if not lenient and (bad := seconds.is_null() & texts.is_not_null()).any():
        row = int(bad.arg_max() or 0)
        problem = f"{name} must be a number of seconds or a date such as 2020-01-31T08:15:00Z, not {texts[row][:40]!r}"
        refuse(row, texts[row], problem)
    rows = {kind: int(there.arg_max() or 0) for kind, each in by_kind.items() if (there := each.is_not_null()).any()}
    if len(rows) > 1:
        (before, _), (kind, row), *_ = sorted(rows.items(), key=lambda each: each[1])
        refuse(row, texts[row], f"{name} is a {kind} time, {texts[row][:40]!r}, and those before are {before} ones")
    return next(iter(rows), ""), seconds


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
