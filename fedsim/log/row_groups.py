"""Reads a table some rows at a time: it may be larger than the memory."""

from collections.abc import Iterator

import polars as pl

ROWS = 1 << 18
"""Rows that are held at once, and rows of a row group in the files: a slice is then a row group."""


def slices(table: pl.DataFrame | pl.LazyFrame, *columns: str) -> Iterator[pl.DataFrame]:
    """Yield some columns of a table in order, `ROWS` rows at a time.

    Where the slices begin does not depend on where the table is kept, so that sums over them are the same to the last
    bit.

    Parameters
    ----------
    table
        In memory, or a scan of a file.
    columns
        Their names.
    """
    chosen, first = table.lazy().select(columns), 0
    while len(part := chosen.slice(first, ROWS).collect()):
        yield part
        first += ROWS
