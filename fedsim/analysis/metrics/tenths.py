"""Participation by tenths of the devices, in the order of available time or speed, and by time zone."""

import numpy as np
import polars as pl

from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView
from fedsim.common.arrays import Floats, Ints

TENTHS = 10


class Tenths:
    """How often each tenth of the devices takes part, and each time zone."""

    metrics = described(
        "participation",
        """
        by_availability.TENTH | | Participations per device of a tenth of the devices by available time (1: least, 10: most), over the average: 1 is even.
        by_speed.TENTH | | Participations per device of a tenth of the devices by speed (1: slowest, 10: fastest), over the average: 1 is even.
        by_zone.most | | Share of the participations over share of the devices, of the time zone where it is largest.
        by_zone.least | | Share of the participations over share of the devices, of the time zone where it is smallest.
        availability.TENTH | share | Share of the run for which a device of that tenth was available, on average.
    """,  # noqa: E501
    )

    def measure(self, run: LogView) -> dict[str, float]:
        """Return those of quantities that differ; nothing where no device took part, or fewer than ten are known."""
        counts, metrics = run.clients["participations"].to_numpy(), dict[str, float]()
        if not counts.any():
            return {}
        if run.available is not None:
            followed, share = run.available.clients, run.available.share
            own = counts[followed]
            if own.any():
                metrics |= _by_tenth("participation.by_availability", share, own / own.mean())
                metrics |= _by_tenth("participation.availability", share, share)
        metrics |= _by_tenth("participation.by_speed", run.clients["speed"].to_numpy(), counts / counts.mean())
        zones = run.clients["time_zone"].unique().sort()
        if len(zones) > 1:
            of_zone = run.clients["time_zone"].cast(pl.Enum(zones)).to_physical().to_numpy()
            each = np.bincount(of_zone, weights=counts) / np.bincount(of_zone) / counts.mean()
            metrics |= {
                "participation.by_zone.most": float(each.max()),
                "participation.by_zone.least": float(each.min()),
            }
        return metrics


def _by_tenth(name: str, key: Floats, values: Floats) -> dict[str, float]:
    if len(key) < TENTHS or key.min() == key.max():
        return {}
    return {f"{name}.{number}": float(value) for number, value in enumerate(tenths(key, values), start=1)}


def tenths(key: Floats, values: Floats | Ints) -> Floats:
    """Return the mean value (10,) of each tenth of some devices, in the order of a key.

    Devices of the same key are alike: each tenth that they lie in has its part of all of them, so that their order
    makes no difference.
    """
    _, of_level, sizes = np.unique(key, return_inverse=True, return_counts=True)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    summed = np.concatenate([[0.0], np.cumsum(np.bincount(of_level, weights=values))])
    cuts = np.linspace(0, len(key), TENTHS + 1)
    return np.asarray(np.diff(np.interp(cuts, edges, summed)) / (len(key) / TENTHS), dtype=np.float64)
