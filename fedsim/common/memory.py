"""How much memory is free, and what does not fit into it: a few bytes of a packed file can stand for any number."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedsim.common.regular_files import open_regular

SHARE: Final = 0.8
"""Of the memory that is free, so much may be taken."""

_CGROUP = Path("/sys/fs/cgroup")
_BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([0x78, level]): "zlib" for level in (0x01, 0x5E, 0x9C, 0xDA)},
}


def free_bytes() -> int | None:
    """Return how much memory is free, None where the system does not tell.

    What the machine has left (Linux: MemAvailable; elsewhere: all physical memory), what the control group of a
    container has left, or what a limit on this process leaves (``ulimit -v``), whichever is least.
    """
    left: list[int] = []
    for measure in (_of_machine, _of_container, lambda: max(0, _limit_of_process() - _taken_bytes())):
        with suppress(AttributeError, ImportError, OSError, ValueError):  # where the system does not tell
            left.append(measure())
    return min(left, default=None)


def library_bytes() -> int:
    """Return how much address space Python's libraries may reserve: for their code, and for a thread on each core."""
    return (7 << 28) + ((os.cpu_count() or 1) << 27)


def too_narrow() -> str | None:
    """Say that a limit on this process (``ulimit -v``) is less than that: there some of the libraries abort."""
    with suppress(ImportError, OSError, ValueError):
        limit, least = _limit_of_process(), library_bytes()
        if limit < least:
            needed = f"at least {readable_bytes(least)}, which Python's libraries may reserve on this machine"
            return f"the address space is limited to {readable_bytes(limit)} (ulimit -v); give it {needed}"
    return None


def limit_this_process(share: float) -> None:
    """Let this process take no more than a share of what is free beside what it has, where the system can see to it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        free, taken = free_bytes(), _taken_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if free is not None and soft == resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_AS, (taken + int(share * free), hard))


def _of_machine() -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_container() -> int:
    limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
    return max(0, limit - int((_CGROUP / "memory.current").read_text(encoding="ascii")))


def _limit_of_process() -> int:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        raise ValueError("there is no limit")
    return limit


def _taken_bytes() -> int:
    """Return the size of this process's address space."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")


def readable_bytes(size: float) -> str:
    """Return a number of bytes as a person reads it: 14.9 GiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def too_much(size: float) -> str:
    """Return why so many bytes do not fit into the memory; nothing, where they do or the memory is not known."""
    free = free_bytes()
    if free is None or size <= SHARE * free:
        return ""
    budget = f"the budget is {readable_bytes(SHARE * free)} ({SHARE:.0%} of what is free)"
    return f"would take {readable_bytes(size)} of memory, and {budget}"


def packed_as(path: Path) -> str | None:
    """Return what a file is compressed with, by its first bytes; None if it is not."""
    with open_regular(path) as file:
        beginning = file.read(8)
    return next((name for magic, name in _BEGINNINGS.items() if beginning.startswith(magic)), None)
