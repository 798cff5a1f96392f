"""What only a buffered server has: staleness, versions per hour, and how full its places are."""

import math
from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

_HOUR_S = 3600.0


def of_staleness(parts: Iterable[pl.DataFrame]) -> dict[str, float]:
    """Return the mean, quantiles and maximum of the staleness of all reports, discarded ones included.

    Parameters
    ----------
    parts
        The column ``staleness`` of the participations, some rows at a time.
    """
    counts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    for part in parts:
        more = np.bincount(part["staleness"].drop_nulls().to_numpy(), minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    reports, cumulative = int(counts.sum()), np.cumsum(counts)
    if not reports:
        return {}
    return {
        "staleness.mean": float(counts @ np.arange(len(counts))) / reports,
        "staleness.p50": float(np.searchsorted(cumulative, 0.5 * reports)),
        "staleness.p95": float(np.searchsorted(cumulative, 0.95 * reports)),
        "staleness.max": float(np.flatnonzero(counts)[-1]),
    }


def of_places(spent_s: Iterable[float], steps: int, concurrency: int, ended_s: float) -> dict[str, float]:
    """Return how fast versions went by, and how many of the places were taken, on average over time.

    Parameters
    ----------
    spent_s
        Time spent in sessions, in parts.
    steps
        Steps that the server has made.
    concurrency
        Places.
    ended_s
        How long the run was.
    """
    if ended_s <= 0:
        return {}
    return {
        "versions.per_hour": steps / (ended_s / _HOUR_S),
        "concurrency.utilisation": math.fsum(spent_s) / (concurrency * ended_s),
    }
