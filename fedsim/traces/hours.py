"""Intervals cut at the full hours."""

from typing import NamedTuple

import numpy as np

from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Floats, Ints

HOUR_S = 3600.0


class Pieces(NamedTuple):
    """Pieces of intervals, each within one hour: its device, the number of the hour since position 0, its seconds."""

    devices: Ints
    hours: Ints
    seconds: Floats


def pieces(spans: Spans) -> Pieces:
    """Cut intervals at the full hours."""
    first, last = np.floor(spans.starts / HOUR_S), np.ceil(spans.ends / HOUR_S)
    counts = (last - first).astype(np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    hour = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    seconds = np.minimum(spans.ends[row], (hour + 1) * HOUR_S) - np.maximum(spans.starts[row], hour * HOUR_S)
    return Pieces(spans.devices[row], hour.astype(np.int64), seconds)


def time_by_hour(spans: Spans) -> Floats:
    """Return how many seconds of each device's intervals lie in each of the 24 hours, shape (devices, 24)."""
    cut = pieces(spans)
    held = np.bincount(cut.devices * 24 + cut.hours % 24, cut.seconds, 24 * len(spans))
    return np.asarray(held, dtype=np.float64).reshape(-1, 24)
