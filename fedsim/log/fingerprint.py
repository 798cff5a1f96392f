"""A hash of what a table says, whatever the file that holds it."""

import hashlib
from collections.abc import Mapping

import numpy as np
import polars as pl

from fedsim.common.row_groups import slices


class Fingerprint:
    """Hashes a table with the columns of `schema` while it is read, part by part."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self._schema, self._rows = schema, 0
        self._digests = {name: (hashlib.sha256(), hashlib.sha256()) for name in schema}

    def add(self, part: pl.DataFrame) -> None:
        """Take the next rows."""
        for name, (nulls, values) in self._digests.items():
            if part[name].null_count():
                nulls.update((part[name].is_null().arg_true().to_numpy().astype(np.int64) + self._rows).data)
            _add(values, part[name].to_physical(), first=not self._rows)
        self._rows += len(part)

    def hexdigest(self) -> str:
        """Return the hash of all rows that were added, as hexadecimal digits."""
        digest = hashlib.sha256()
        for name, dtype in self._schema.items():
            kind = f"Enum{dtype.categories.to_list()}" if isinstance(dtype, pl.Enum) else str(dtype)
            digest.update(f"{name}:{kind}:{self._rows}\n".encode())
            for each in self._digests[name]:
                digest.update(each.digest())
        return digest.hexdigest()


def fingerprint(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the SHA-256 of a table's contents: names, types, nulls and values, in the order of rows.

    Unlike the bytes of a Parquet file it does not change with the version of the writer.
    """
    found = Fingerprint(table.lazy().collect_schema())
    for part in slices(table):
        found.add(part)
    return found.hexdigest()


def says(table: pl.DataFrame | pl.LazyFrame, known: object) -> bool:
    """Say whether a table has a fingerprint, as it is made now or as version 0.2 made it."""
    return known == fingerprint(table) or known == _of_0_2(table)


def _of_0_2(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the fingerprint that version 0.2 made: column by column, first which values are null, then all values."""
    digest = hashlib.sha256()
    length = table.lazy().select(pl.len()).collect().item()
    for name, dtype in table.lazy().collect_schema().items():
        digest.update(f"{name}:{dtype}:{length}\n".encode())
        for part in slices(table, name):
            digest.update(part[name].is_null().to_numpy().data)
        for number, part in enumerate(slices(table, name)):
            _add(digest, part[name].to_physical(), first=not number)
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", values: pl.Series, *, first: bool) -> None:
    """Add the values of a part of a column."""
    if values.dtype == pl.String:
        joined: bytes = values.fill_null("").str.join("\0").cast(pl.Binary).item()
        digest.update(b"\0" * (not first))
        digest.update(joined)
    else:
        digest.update(np.ascontiguousarray(values.fill_null(0).to_numpy()).data)
