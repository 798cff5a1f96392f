"""Availability by hour of the day, in UTC and in the devices' own time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints

_UTC = ZoneInfo("UTC")


def hours_of(times_s: Floats, start: datetime, zone: ZoneInfo) -> Ints:
    """Return the civil hour (0 to 23) in a zone of each time, (n,) seconds since `start`, with its daylight saving."""
    base = start.astimezone(UTC)
    return np.array([(base + timedelta(seconds=t)).astimezone(zone).hour for t in times_s.tolist()], dtype=np.int64)


def share_by_hour(
    gauges: pl.DataFrame, devices: Mapping[str, int], start: datetime, *, local: bool
) -> dict[int, float]:
    """Return the share of devices that are available by hour of the day, as far as the gauges cover it.

    `devices` is how many live in each time zone; hours are those of UTC or, with `local`, of each time zone.
    """
    available, possible = np.zeros(24), np.zeros(24)
    for zone, count in devices.items():
        own = gauges.filter(time_zone=zone).group_by("time_s", maintain_order=True).agg(pl.col("available").sum())
        hours = hours_of(own["time_s"].to_numpy(), start, ZoneInfo(zone) if local else _UTC)
        available += np.bincount(hours, weights=own["available"].to_numpy(), minlength=24)
        possible += count * np.bincount(hours, minlength=24)
    return {hour: float(available[hour] / possible[hour]) for hour in range(24) if possible[hour]}
