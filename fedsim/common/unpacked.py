"""What a file is when it is unpacked, known before it is: a few bytes can stand for any number of equal values."""

from pathlib import Path

from fedsim.common.memory import SHARE, free_bytes, readable

_BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([0x78, level]): "zlib" for level in (0x01, 0x5E, 0x9C, 0xDA)},
}


def packed_as(path: Path) -> str | None:
    """Return what a file is compressed with, by its first bytes; None if it is not.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        beginning = file.read(8)
    return next((name for magic, name in _BEGINNINGS.items() if beginning.startswith(magic)), None)


def too_much(size: float) -> str:
    """Return why so many bytes do not fit into the memory; nothing, where they do or the memory is not known."""
    free = free_bytes()
    if free is None or size <= SHARE * free:
        return ""
    budget = f"the budget is {readable(SHARE * free)} ({SHARE:.0%} of what is free)"
    return f"would take {readable(size)} of memory, and {budget}"
