"""A hash of what a table says, whatever the file that holds it."""

import hashlib

import polars as pl

from fedsim.log.row_groups import slices


def fingerprint(table: pl.DataFrame | pl.LazyFrame) -> str:
    """Return the SHA-256 of a table's contents: names, types, nulls and values, in the order of rows.

    The Parquet file's bytes may change with the version of its writer; this does not.
    """
    digest = hashlib.sha256()
    length = table.lazy().select(pl.len()).collect().item()
    for name, dtype in table.lazy().collect_schema().items():
        digest.update(f"{name}:{dtype}:{length}\n".encode())
        for part in slices(table, name):
            digest.update(part[name].is_null().to_numpy().tobytes())
        for number, part in enumerate(slices(table, name)):
            if dtype == pl.String:
                joined: str = part[name].fill_null("").str.join("\0").item()
                digest.update(("\0" * bool(number) + joined).encode())
            else:
                digest.update(part[name].fill_null(0).to_numpy().tobytes())
    return digest.hexdigest()
