"""Simulated time: a whole number of milliseconds since the scenario's `start`. Tables and messages show seconds."""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats, Ints

FOREVER: Final = 1 << 60
"""The instant that never comes, and a length without end; what is longer than 36 million years counts as such."""
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
HOUR_S, DAY_S = 3_600.0, 86_400.0
_UNITS = ((DAY_S, "d"), (HOUR_S, "h"), (60.0, "min"), (1.0, "s"))
_PER_SECOND = 1000.0


def to_ms(seconds: float) -> int:
    """Return a time or length in whole milliseconds, the nearest ones; infinity becomes `FOREVER`."""
    scaled = seconds * _PER_SECOND
    return round(scaled) if abs(scaled) < FOREVER else int(math.copysign(FOREVER, scaled))


def each_to_ms(seconds: ArrayLike) -> Ints:
    """Return times or lengths (n,) in whole milliseconds, the nearest ones; infinity becomes `FOREVER`."""
    scaled = np.clip(np.multiply(seconds, _PER_SECOND, dtype=np.float64), -float(FOREVER), float(FOREVER))
    return np.asarray(np.rint(scaled), dtype=np.int64)


def to_seconds(ms: int) -> float:
    """Return the seconds of an instant or length in milliseconds: the multiple of 0.001, infinite for `FOREVER`."""
    return ms / _PER_SECOND if abs(ms) < FOREVER else math.copysign(math.inf, ms)


def each_to_seconds(ms: ArrayLike) -> Floats:
    """Return the seconds of instants or lengths (n,) in milliseconds, as `to_seconds`."""
    whole = np.asarray(ms, dtype=np.int64)
    seconds = whole / _PER_SECOND
    ever = np.abs(whole) >= FOREVER
    return np.where(ever, np.copysign(np.inf, whole), seconds) if ever.any() else seconds


def readable_time(seconds: float) -> str:
    """Write a length of time for a person, to three digits in the unit that suits it: ``90 min``, ``3.17 d``."""
    size, unit = time_unit(seconds)
    return f"{float(f'{seconds / size:.3g}'):,g} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the largest unit of which a time has at least two, or seconds: its length in seconds, and its name."""
    return next(((size, unit) for size, unit in _UNITS if abs(seconds) >= 2 * size), _UNITS[-1])
