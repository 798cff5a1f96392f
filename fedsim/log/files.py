"""Files that are whole or absent: written under a temporary name in the same folder, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from fedsim.errors import RunError
from fedsim.log.row_groups import ROWS


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file at once.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    with _whole(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file at once, in UTF-8."""
    write_bytes(path, text.encode())


def write_table(path: Path, table: pl.DataFrame) -> None:
    """Write a table as Parquet at once."""
    with _whole(path) as partial:
        table.write_parquet(partial, compression="zstd", row_group_size=ROWS)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give the block a temporary name to write to; the file gets its own name when it is safely on the disk."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from None
