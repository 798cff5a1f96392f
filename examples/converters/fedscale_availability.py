"""Convert FedScale's availability of devices to a trace: ``python fedscale_availability.py IN.pickle OUT.csv``.

It is a pickle of ``{id: {"active": [...], "inactive": [...], ...}}``: the i-th number of ``active`` is when a device
becomes available, the i-th of ``inactive`` when it ceases to be, in seconds; after ``finish_time`` all begins again, as
with `repeat: device`. ``fedsim trace import OUT.csv`` checks the intervals. A device without any gets an empty row.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plain_pickle import plain_pickle

COLUMNS = ("device", "start_s", "end_s", "seen_from_s", "seen_to_s", "cycle_s")
SHAPE = 'a pickled trace is {id: {"active": [...], "inactive": [...]}} with times in seconds'


def rows(found: Any) -> Iterator[tuple[str | float | None, ...]]:
    """Yield the device, the start and the end of each interval, and when the device was observed, and its cycle.

    Raises
    ------
    ValueError
        If the pickle has another shape; the message says where.
    """
    if not isinstance(found, dict) or not found:
        raise ValueError(SHAPE)
    if len({str(name) for name in found}) < len(found):
        raise ValueError("has a device twice, once by number and once by text")
    for name, device in found.items():
        if not isinstance(name, str | int) or not isinstance(device, dict):
            raise ValueError(SHAPE)  # noqa: TRY004
        starts, ends = (device.get(key) for key in ("active", "inactive"))
        if not isinstance(starts, list | tuple) or not isinstance(ends, list | tuple) or len(starts) != len(ends):
            raise ValueError(f"device {name!r} must have as many times `active` as `inactive`; {SHAPE}")
        if not all(isinstance(value, int | float) for value in (*starts, *ends)):
            raise ValueError(f"device {name!r} has a time that is no number; {SHAPE}")
        finish = device.get("finish_time")
        if finish is not None and not (isinstance(finish, int | float) and 0 < finish < 1e10):
            raise ValueError(f"device {name!r} has a `finish_time` that is no number of seconds above 0; {SHAPE}")
        seen = (None, None, None) if finish is None else (0.0, float(finish), float(finish))
        try:
            yield from ((str(name), float(start), float(end), *seen) for start, end in zip(starts, ends, strict=True))
        except OverflowError:
            raise ValueError(f"device {name!r} has a time that is impossible") from None
        if not starts:
            yield str(name), None, None, *seen


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(f"usage: {sys.argv[0]} IN.pickle OUT.csv")
    source, out = map(Path, sys.argv[1:])
    try:
        intervals = list(rows(plain_pickle(source)))
    except ValueError as error:
        raise SystemExit(f"{source}: {error}") from None
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *intervals])
