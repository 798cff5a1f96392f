"""Reads a table some rows at a time: it may be larger than the memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl

ROWS = 1 << 18
"""Rows that are read at once, and rows of a row group in the files: a slice is then a row group."""


def slices(table: pl.DataFrame | pl.LazyFrame, *columns: str, groups: int = 1) -> Iterator[pl.DataFrame]:
    """Yield some columns of a table in order, so many times `ROWS` rows at a time.

    Where the slices begin does not depend on where the table is kept, so that sums over them are the same to the last
    bit. While one slice of a file is worked on the next one is read, so two are held at once.

    Parameters
    ----------
    table
        In memory, or a scan of a file.
    columns
        Their names.
    groups
        More than one where the columns are few, and where sums are not the matter.
    """
    rows = groups * ROWS
    if isinstance(table, pl.DataFrame):
        chosen = table.select(columns)
        yield from (chosen.slice(first, rows) for first in range(0, len(chosen), rows))
        return
    scan, first = table.select(columns), 0
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(scan.slice(0, rows).collect)
        while len(part := coming.result()):
            first += rows
            coming = reader.submit(scan.slice(first, rows).collect)
            yield part
