"""Memory that an optimizer needs for every client, and whether there is so much."""

import os
from pathlib import Path
from typing import Final

from fedsim.learning.failures import LearningError

SHARE: Final = 0.8
"""Of the memory that is free, as much may be taken for the states of optimizers."""

_CGROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Return how much memory is free, None where the system does not tell.

    What the machine has left (Linux: MemAvailable; elsewhere: all physical memory), or what the control group of a
    container has left, whichever is less.
    """
    known = [size for size in (_of_machine(), _of_container()) if size is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _of_container() -> int | None:
    try:
        limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        return max(0, limit - int((_CGROUP / "memory.current").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return None


def require(what: str, needed: int, hint: str) -> None:
    """Refuse to allocate more than is free.

    Raises
    ------
    LearningError
        With what is needed, what there is, and the hint, which says what to do about it.
    """
    free = free_bytes()
    if free is not None and needed > SHARE * free:
        raise LearningError(f"{what} would take {readable(needed)}, and {readable(free)} are free; {hint}")


def readable(size: int) -> str:
    """Return a number of bytes as a person reads it: 14.9 GiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
