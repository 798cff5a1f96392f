"""What it took to reach a loss: time, server steps, and the devices' time in sessions."""

import numpy as np
import polars as pl

_HOUR_S = 3600.0


def to_target(learning: pl.DataFrame, participations: pl.DataFrame | pl.LazyFrame, target: float) -> dict[str, float]:
    """Return when each optimizer's loss was first seen at or below a target.

    Parameters
    ----------
    learning
        The learning table; its evaluated rounds are looked at, the initial model is not.
    participations
        The sessions of the run, columns ``selected_s`` and ``ended_s``.
    target
        The loss.

    Returns
    -------
    For each optimizer NAME ``learning.NAME.time_to_target`` (s), ``learning.NAME.rounds_to_target`` and
    ``learning.NAME.device_hours_to_target``: time that devices had spent in sessions by then, whatever became of them.
    NaN where the loss was never so low.
    """
    sessions = participations.lazy().select("selected_s", "ended_s").collect()
    begun_s, ended_s = sessions["selected_s"].to_numpy(), sessions["ended_s"].to_numpy()
    figures: dict[str, float] = {}
    for name in learning["optimizer"].unique(maintain_order=True):
        reached = learning.filter((pl.col("optimizer") == name) & (pl.col("round") >= 0) & (pl.col("loss") <= target))
        closed_s = float(reached["closed_s"][0]) if len(reached) else float("nan")
        spent_s = np.clip(np.minimum(ended_s, closed_s) - begun_s, 0.0, None).sum()
        figures |= {
            f"learning.{name}.time_to_target": closed_s,
            f"learning.{name}.rounds_to_target": float(reached["round"][0] + 1) if len(reached) else float("nan"),
            f"learning.{name}.device_hours_to_target": float(spent_s) / _HOUR_S,
        }
    return figures
