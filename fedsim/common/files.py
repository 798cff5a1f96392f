"""Files that are whole or absent, written under a temporary name and then renamed; folders with one writer."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arguments import check_local
from fedsim.common.errors import MissingRunError, RunError
from fedsim.common.memory import free_bytes
from fedsim.common.regular_files import check_folders, check_replaceable, open_regular, regular

LOCK_FILE: Final = ".lock"
"""In a directory, while somebody writes to it."""
ROWS = 1 << 18
"""Rows that are read at once, and rows of a row group in the files: a slice is then a row group."""
UNREADABLE: Final = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What reading a table raises that is damaged; some damage makes polars panic."""


_CHECKSUM: Final = "checksum"
_PARTIAL: Final = re.compile(r"\..+\.(\d+)\.partial")


def name_of_file(title: str, otherwise: str) -> str:
    """Return a title as the name of a file or folder; `otherwise`, if nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.") or otherwise


def portable(path: str) -> str:
    """Return a path that is good elsewhere: a full one from the top of its repository on, else its last name."""
    whole = Path(path)
    if not whole.is_absolute():
        return path
    top = next((folder for folder in whole.parents if (folder / ".git").exists()), whole.parent)
    return whole.relative_to(top).as_posix()


def pasteable(path: str) -> str:
    """Return a path as it may stand in a command: from the working folder if it is below it, else as it is."""
    whole, here = Path(path), Path.cwd()
    words = str(whole.relative_to(here)) if whole.is_relative_to(here) else path
    return f"./{words}" if words.startswith("-") else words


def cache_home() -> Path | None:
    """Return the user's folder for caches, ``XDG_CACHE_HOME`` or ``~/.cache``; None where nobody says where ~ is."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    with suppress(RuntimeError):  # neither HOME nor a user of this number
        return Path.home() / ".cache"
    return None


def hash_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of the files in a folder, as hexadecimal digits; None where there is none."""
    digest = hashlib.sha256()
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    for file in files:
        if not file.is_file():
            return None
        with open_regular(file) as opened:
            hashlib.file_digest(opened, lambda: digest)
    return digest.hexdigest()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file at once; a `RunError` says why it cannot be written."""
    with _temporary_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text file at once, in UTF-8."""
    write_bytes(path, text.encode())


def would_replace(path: Path, text: str) -> bool:
    """Say whether a file is there with another text: what a call that was killed has written may be written again."""
    try:
        with open_regular(path) as file:
            return file.read(4 * len(text) + 1) != text.encode()
    except OSError as error:
        return not isinstance(error, FileNotFoundError)


def write_new(texts: Mapping[Path, str], remedy: str, *, force: bool = False) -> None:
    """Write text files, none if one is there with another text: a `RunError` then, with the `remedy`."""
    for path, text in texts.items():
        if not force and would_replace(path, text):
            raise RunError(f"{path} exists; {remedy}")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)


About: TypeAlias = Callable[[Sequence[str]], dict[str, str]]
"""Returns what a Parquet file says of itself, for its columns: keys and values of its metadata."""


def write_table(path: Path, table: pl.DataFrame, *, passing: bool = False, about: About | None = None) -> None:
    """Write a table as Parquet at once; one that is only passing is compressed with less effort."""
    metadata = None if about is None else about(table.columns)
    with _temporary_file(path) as partial:
        table.write_parquet(partial, compression="lz4" if passing else "zstd", row_group_size=ROWS, metadata=metadata)


def read_table(path: Path, remedy: str = "is this a run directory?") -> pl.DataFrame:
    """Read a Parquet file; a `RunError` with the `remedy` says why it cannot be read."""
    with reading(path, remedy):
        return pl.read_parquet(regular(path), glob=False)


@contextmanager
def reading(path: Path, remedy: str = "is this a run directory?") -> Iterator[None]:
    """Turn what reading a Parquet file in the block raises into a `RunError` with the `remedy`."""
    try:
        yield
    except FileNotFoundError:
        raise MissingRunError(f"{path}: no such file; {remedy}") from None
    except UNREADABLE as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise RunError(f"{path} cannot be read: {first}; {remedy}") from None


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


def join_tables(path: Path, parts: Sequence[Path], about: About | None = None) -> None:
    """Write a table that lies in several files, in their order, as one: the same bytes as if it had been in memory."""
    write_lazily(path, pl.scan_parquet(list(parts), glob=False), about)


def write_lazily(path: Path, whole: pl.LazyFrame, about: About | None = None) -> None:
    """Write a table that may be larger than the memory: the same bytes as `write_table`."""
    metadata = None if about is None else about(whole.collect_schema().names())
    with _temporary_file(path) as partial:
        whole.sink_parquet(partial, compression="zstd", row_group_size=ROWS, metadata=metadata)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as one uncompressed ``.npz`` file at once."""
    with _temporary_file(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore


def write_checked(path: Path, arrays: Mapping[str, NDArray[Any]], of: str) -> None:
    """Write arrays for `read_checked`, with a hash of them and of what they are said to be of."""
    write_arrays(path, {**arrays, _CHECKSUM: _hash_of_arrays(arrays, of)})


def read_checked(path: Path, of: str) -> dict[str, NDArray[Any]]:
    """Read the arrays that `write_checked` has written of the same thing.

    It is an `OSError` if there is no such regular file, and any other error if it holds something else.
    """
    with open_regular(path, free_bytes()) as opened:
        with ZipFile(opened) as members:
            if any(member.compress_type != ZIP_STORED for member in members.infolist()):  # which no fedsim writes
                raise ValueError("it is compressed")
        opened.seek(0)
        with np.load(opened, allow_pickle=False) as stored:
            arrays = dict(stored)
    if not np.array_equal(arrays.pop(_CHECKSUM), _hash_of_arrays(arrays, of)):
        raise ValueError("its checksum is another")
    return arrays


def _hash_of_arrays(arrays: Mapping[str, NDArray[Any]], of: str) -> NDArray[np.uint8]:
    """Return a hash of arrays: what they are of, their names, forms and contents."""
    digest = hashlib.sha256(of.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.view(np.uint8).data if array.size else b"")
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there; a `RunError` says why it cannot be removed."""
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            check_replaceable(path)
            path.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{path} cannot be removed: {error.strerror or error}") from None


@contextmanager
def sole_writer(folder: Path, what: str) -> Iterator[None]:
    """Refuse a second writer of a directory while the block runs; the directory is made if it is not there.

    The lock is on a file `LOCK_FILE` in it, which goes with the lock; that of a process that was killed locks nothing.
    A `RunError` says if another process writes there (another `what`, such as ``run``), or the directory is unusable.
    """
    from filelock import FileLock, Timeout  # takes a while

    check_local(folder)
    lock = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_folders(folder)
        check_replaceable(folder / LOCK_FILE)
        lock.acquire()
    except Timeout:
        remedy = "wait for it, or choose another folder with --out"
        raise RunError(f"another {what} is writing to {folder}; {remedy}") from None
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file: there the library does, once it is closed
            (folder / LOCK_FILE).unlink()
        lock.release()


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """Give the block a temporary name to write to; the file gets its own name when it is safely on the disk."""
    check_local(path)
    if not path.name:
        raise RunError(f"{path} is a folder; name a file")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        check_replaceable(path)
        _remove_left(path.parent)
        partial.unlink(missing_ok=True)  # somebody may have put a link or a FIFO there
        yield partial
        with partial.open("r+b") as file:  # Windows flushes no file that is open for reading alone
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    finally:
        with suppress(OSError):  # on a disk that cannot be written there is nothing to remove, either
            partial.unlink(missing_ok=True)


@cache
def _remove_left(folder: Path) -> None:
    """Remove, once, what processes that are gone have left half-written in a folder."""
    for left in folder.iterdir() if os.name == "posix" else ():
        partial = _PARTIAL.fullmatch(left.name)
        if partial and not _is_alive(int(partial[1])):
            with suppress(OSError):
                left.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        pass
    return True
