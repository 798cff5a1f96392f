"""Columns of CSV and Parquet files with one row for each client."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.files import UNREADABLE
from fedsim.common.memory import packed_as, too_much
from fedsim.common.regular_files import open_regular
from fedsim.scenario.server import MOST_CLIENTS
from fedsim.scenario.sources import Column

_LARGEST_FILE = 512 * 2**20
_LONGEST_HEAD = 2**20
_BYTES_OF_A_ROW = 100
Locate = Callable[[str], Path]


def read_numbers(source: Column, locate: Locate) -> NDArray[np.generic]:
    """Return a column of numbers, from the file that `locate` finds.

    Raises a `ValueError` if there is no such column, or it holds something else; the message says what.
    """
    column, named = _read(source, locate)
    if not column.dtype.is_numeric() or column.null_count():
        raise ValueError(f"{named} holds something that is not a number")
    return column.to_numpy()


def read_words(source: Column, locate: Locate) -> pl.Series:
    """Return a column of words; parameters and errors as in `read_numbers`."""
    column, named = _read(source, locate)
    if column.null_count():
        raise ValueError(f"{named} is empty in row {int(column.is_null().arg_max() or 0)}")
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype != pl.String:
        raise ValueError(f"{named} holds something that is not text")
    return column


def _read(source: Column, locate: Locate) -> tuple[pl.Series, str]:
    """Return a column, and how messages name it."""
    name, file = source.column, locate(str(source.file))
    named, parquet = f"column {name!r} of {str(file)!r}", file.suffix.lower() in {".parquet", ".pq"}
    if file.exists() and not file.is_file():
        raise ValueError(f"{str(file)!r} is not a file")
    if file.exists() and file.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{str(file)!r} is larger than {_LARGEST_FILE // 2**20} MiB")
    try:
        if parquet:
            # A few bytes can stand for any number of equal values, so these are counted before they are unpacked.
            kinds = pl.scan_parquet(file, glob=False).collect_schema()
            names = list(kinds)
            if name in kinds and kinds[name].is_nested():
                raise ValueError(f"{named} holds neither numbers nor text")
            rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
            _check_size(rows, file)
            table = pl.read_parquet(file, columns=[name] if name in names else [], glob=False)
        else:  # types are inferred from all rows: numbers may be whole in the first ones alone
            names = _check_csv(file)
            table = pl.read_csv(
                file, glob=False, infer_schema_length=None, columns=[name] if name in names else names[:1]
            )
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}") from None
    except UNREADABLE as error:
        message = str(error).strip().partition("\n")[0]
        raise ValueError(f"{str(file)!r} is not a readable {'Parquet' if parquet else 'CSV'} file: {message}") from None
    if name not in names:
        raise ValueError(f"{str(file)!r} has no column {name!r}; it has {', '.join(names)}")
    return table[name], named


def _check_csv(file: Path) -> list[str]:
    """Return the columns of an uncompressed CSV file with no more rows than there can be devices.

    Raises a `ValueError` if it is compressed, or has too many rows or columns.
    """
    if packed := packed_as(file):
        raise ValueError(f"{str(file)!r} is compressed ({packed}); unpack it, or write Parquet")
    with open_regular(file) as opened:
        if len(head := opened.readline(_LONGEST_HEAD)) == _LONGEST_HEAD:
            raise ValueError(f"the first line of {str(file)!r} is longer than {_LONGEST_HEAD // 2**20} MiB")
    _check_size(pl.scan_csv(file, infer_schema=False, glob=False).select(pl.len()).collect().item(), file)
    return pl.read_csv(head, n_rows=0, infer_schema=False).columns


def _check_size(rows: int, file: Path) -> None:
    if rows > MOST_CLIENTS:
        raise ValueError(f"{str(file)!r} has {rows:,} rows; a group has {MOST_CLIENTS:,} devices at most")
    if why := too_much(_BYTES_OF_A_ROW * rows):
        raise ValueError(f"{str(file)!r} has {rows:,} rows, which {why}")
