"""A hash of what a table says, whatever the file that holds it."""

import hashlib

import numpy as np
import polars as pl

from fedsim.common.row_groups import ROWS, slices


def fingerprint(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the SHA-256 of a table's contents: names, types, nulls and values, in the order of rows.

    The Parquet file's bytes may change with the version of its writer; this does not.
    """
    digest = hashlib.sha256()
    length = table.lazy().select(pl.len()).collect().item()
    for name, dtype in table.lazy().collect_schema().items():
        digest.update(f"{name}:{dtype}:{length}\n".encode())
        digest = _of_column(digest, table, name, length)
    return digest.hexdigest()


def _of_column(digest: "hashlib._Hash", table: pl.DataFrame | pl.LazyFrame, name: str, length: int) -> "hashlib._Hash":
    """Return the digest with a column added: which of its values are null, then all values."""
    # Most columns have no nulls: that is taken for granted, in one pass, until the values say otherwise.
    full = digest.copy()
    for first in range(0, length, ROWS):
        full.update(bytes(min(ROWS, length - first)))
    for number, part in enumerate(slices(table, name)):
        if part[name].null_count():
            break
        _add(full, part[name], number)
    else:
        return full
    for part in slices(table, name):
        digest.update(part[name].is_null().to_numpy().data)
    for number, part in enumerate(slices(table, name)):
        _add(digest, part[name], number)
    return digest


def _add(digest: "hashlib._Hash", values: pl.Series, number: int) -> None:
    """Add the values of a slice of a column, the one of this number."""
    if values.dtype == pl.String:
        joined: bytes = values.fill_null("").str.join("\0").cast(pl.Binary).item()
        digest.update(b"\0" * bool(number))
        digest.update(joined)
    else:
        digest.update(np.ascontiguousarray(values.fill_null(0).to_numpy()).data)
