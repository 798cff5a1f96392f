"""The population: how many devices are available and eligible, on average and by hour of the day."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.measure.metrics.metric import RunPart, described, mean

_UTC = ZoneInfo("UTC")


class PopulationMetrics:
    """What the gauges say."""

    metrics = described("""
        population.available_share | share | Share of devices that are available, on average over the gauges. # needs: clients
        population.eligible_share | share | Share of clients that are eligible, on average over the gauges. # needs: clients
        population.available_share.ratio | | Devices available at the fullest hour of the day (UTC) over those at the emptiest.
        population.available_share.utc.HOUR | share | Devices that are available at that hour of the day in UTC (00 to 23). # needs: clients
        population.available_share.local.HOUR | share | Devices that are available at that hour of their own local time. # needs: clients
    """)  # noqa: E501
    scope = "both"

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return shares of the devices; nothing where they were not counted."""
        if not len(run.gauges):
            return {}
        devices = sum(map(Counter, run.setting.groups.values()), Counter[str]())
        totals = run.gauges.group_by("time_s", maintain_order=True).agg(pl.col("available", "eligible").sum())
        number = sum(devices.values())
        metrics = {f"population.{name}_share": mean(totals[name]) / number for name in ("available", "eligible")}
        for clock in ("utc", "local"):
            for hour, share in share_by_hour(run.gauges, devices, run.setting.start, local=clock == "local").items():
                metrics[f"population.available_share.{clock}.{hour:02d}"] = share
        by_hour = [each for name, each in metrics.items() if name.startswith("population.available_share.utc.")]
        if by_hour and min(by_hour) > 0.0:
            metrics["population.available_share.ratio"] = max(by_hour) / min(by_hour)
        return metrics


class CheckInMetrics:
    """How many requests the server answers from devices that check in, by the gauges."""

    metrics = described("""
        check_ins.per_second.mean | | Check-ins a second, on average: available devices over the time from one to the next.
        check_ins.per_second.max | | Check-ins of devices a second when there were most.
        check_ins.ratio | | Check-ins in the fullest hour of the day (UTC) over those in the emptiest.
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return them; nothing where devices do not check in, or were not counted."""
        if run.setting.check_ins is None or not len(run.gauges):
            return {}
        times, available = run.gauges.group_by("time_s", maintain_order=True).agg(pl.col("available").sum())
        rate = available.to_numpy() * run.setting.check_ins(times.to_list())
        metrics = {"check_ins.per_second.mean": float(rate.mean()), "check_ins.per_second.max": float(rate.max())}
        hours = hours_of(times.to_numpy(), run.setting.start, _UTC)
        count = np.bincount(hours, minlength=24)
        if count.all() and (by_hour := np.bincount(hours, rate, 24) / count).all():
            metrics["check_ins.ratio"] = float(by_hour.max() / by_hour.min())
        return metrics


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
        counted = gauges.filter(time_zone=zone).group_by("time_s", maintain_order=True).agg(pl.col("available").sum())
        hours = hours_of(counted["time_s"].to_numpy(), start, ZoneInfo(zone) if local else _UTC)
        available += np.bincount(hours, weights=counted["available"].to_numpy(), minlength=24)
        possible += count * np.bincount(hours, minlength=24)
    return {hour: float(available[hour] / possible[hour]) for hour in range(24) if possible[hour]}
