"""A directory that one process writes at a time, under a lock that the operating system lets go when it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsim.common.errors import RunError


@contextmanager
def sole_writer(folder: Path, what: str) -> Iterator[None]:
    """Refuse a second writer of a directory while the block runs; the directory is made if it is not there.

    The lock is one of the open directory itself, so that it leaves nothing behind, whatever becomes of the process.

    Parameters
    ----------
    what
        What would be writing there: ``run``, for instance.

    Raises
    ------
    RunError
        If another process is at it, or the directory cannot be made or read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        import fcntl
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error.strerror or error}") from None
    except ImportError:  # there is no such lock on Windows
        yield
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error.strerror or error}") from None
    try:
        _lock(opened, folder, what, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def _lock(opened: int, folder: Path, what: str, how: int) -> None:
    import fcntl

    try:
        fcntl.flock(opened, how)
    except BlockingIOError:
        raise RunError(
            f"another {what} is writing to {folder}; wait for it, or choose another folder with --out"
        ) from None
    except OSError:  # some file systems of a network lock no directories: there it is as without a lock
        return
