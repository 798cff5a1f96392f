"""Reads a table some rows at a time: it may be larger than the memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl

ROWS = 1 << 18
"""Rows that are read at once, and rows of a row group in the files: a slice is then a row group."""


def slices(table: pl.DataFrame | pl.LazyFrame, *columns: str) -> Iterator[pl.DataFrame]:
    """Yield some columns of a table in order, `ROWS` rows at a time.

    Where the slices begin does not depend on where the table is kept, so that sums over them are the same to the last
    bit. While one slice of a file is worked on the next one is read, so two are held at once.

    All columns are read by default.
    """
    table = table.select(columns) if columns else table
    if isinstance(table, pl.DataFrame):
        yield from (table.slice(first, ROWS) for first in range(0, len(table), ROWS))
        return
    first = 0
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(table.slice(0, ROWS).collect)
        while len(part := coming.result()):
            first += ROWS
            coming = reader.submit(table.slice(first, ROWS).collect)
            yield part
