"""Files that others may have put there are opened, and replaced, only if they are regular: nothing waits for a FIFO."""

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

_KINDS: Final = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


def open_regular(path: Path, most: int | None = None) -> BufferedReader:
    """Open a file that somebody else may have put there: a regular file, or a link to one, of at most so many bytes.

    Nothing waits: an `OSError` says at once what a FIFO or a device is, or that a file is too large.
    """
    opened = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    status = os.fstat(opened.fileno())
    why = why_not_regular(status.st_mode)
    if not why and most is not None and status.st_size > most:
        why = f"it is larger than {most // 2**20} MiB"
    if why:
        opened.close()
        raise OSError(errno.EINVAL, why)
    return opened


def regular(path: Path) -> Path:
    """Return the path of a file, for a library to open, once `open_regular` has opened it."""
    open_regular(path).close()
    return path


def why_not_regular(mode: int) -> str:
    """Say what has this mode; nothing, if it is a regular file."""
    return "" if stat.S_ISREG(mode) else f"it is {_KINDS.get(stat.S_IFMT(mode), 'a device')}, not a regular file"


def check_replaceable(path: Path) -> None:
    """Refuse to replace what is no regular file; a link is not followed, since it may lead anywhere."""
    with suppress(FileNotFoundError):
        if why := why_not_regular(path.lstat().st_mode):
            raise OSError(errno.EINVAL, why, str(path))


def check_folders(folder: Path) -> None:
    """Refuse a folder to write into that has a link to a folder in it: files there would be replaced or removed."""
    for each in folder.iterdir():
        if each.is_symlink() and each.is_dir():
            check_replaceable(each)
