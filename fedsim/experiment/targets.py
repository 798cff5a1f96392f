"""The cost of reaching a loss: time, server steps, and the devices' time in sessions."""

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import HOUR_S


class SessionTime:
    """Adds up the time that devices spend in sessions by the end of each round, part by part of the participations.

    Parameters
    ----------
    closed_s
        (T,) when each round closed, in ascending order.
    """

    def __init__(self, closed_s: Floats) -> None:
        self._edges = np.concatenate([[0.0], closed_s])
        self._parts: Floats = np.zeros(len(closed_s) + 1)
        self._whole: Ints = np.zeros(len(closed_s) + 2, dtype=np.int64)

    def add(self, part: pl.DataFrame) -> None:
        """Take the next sessions: columns ``selected_s`` and ``ended_s``."""
        begun_s, ended_s = part["selected_s"].to_numpy(), part["ended_s"].to_numpy()
        last = len(self._parts) - 1
        first, end = (np.searchsorted(self._edges[1:], each) for each in (begun_s, ended_s))
        within, across = ended_s - begun_s, first < end
        within[across] = self._edges[first[across] + 1] - begun_s[across]
        self._parts += np.bincount(first, within, last + 1)
        self._parts += np.bincount(end[across], ended_s[across] - self._edges[end[across]], last + 1)
        np.add.at(self._whole, first[across] + 1, 1)
        np.add.at(self._whole, end[across], -1)

    def until(self, closed_s: float) -> float:
        """Return the seconds that were spent until a round closed, whatever became of the sessions."""
        whole = np.cumsum(self._whole)[: len(self._edges) - 1] * np.diff(self._edges)
        row = int(np.searchsorted(self._edges[1:], closed_s)) + 1
        return float((self._parts[:row] + whole[:row]).sum())


def to_target(learning: pl.DataFrame, spent: SessionTime, target: float) -> dict[str, float]:
    """Return when each optimizer's loss was first seen at or below a target.

    The initial model in the learning table does not count.

    Returns
    -------
    For each optimizer NAME ``learning.NAME.time_to_target`` (s), ``learning.NAME.rounds_to_target`` and
    ``learning.NAME.device_hours_to_target``: time that devices had spent in sessions by then, whatever became of them.
    NaN where the loss was never so low.
    """
    figures: dict[str, float] = {}
    for name in learning["optimizer"].unique(maintain_order=True):
        reached = learning.filter((pl.col("optimizer") == name) & (pl.col("round") >= 0) & (pl.col("loss") <= target))
        found = dict.fromkeys(("time", "rounds", "device_hours"), float("nan"))
        if len(reached):
            closed_s = float(reached["closed_s"][0])
            found = {
                "time": closed_s,
                "rounds": float(reached["round"][0] + 1),
                "device_hours": spent.until(closed_s) / HOUR_S,
            }
        figures |= {f"learning.{name}.{figure}_to_target": value for figure, value in found.items()}
    return figures
