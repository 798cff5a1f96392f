"""The population: how many devices are available and eligible, on average and by hour of the day."""

from collections import Counter

import polars as pl

from fedsim.analysis.hours import share_by_hour
from fedsim.analysis.metrics.metric import described
from fedsim.analysis.metrics.view import LogView, mean


class PopulationMetrics:
    """What the gauges say."""

    metrics = described(
        "population",
        """
        available_share | share | Share of devices that are available, on average over the gauges.
        eligible_share | share | Share of clients that are eligible, on average over the gauges.
        available_share.ratio | | Devices available at the fullest hour of the day (UTC) over those at the emptiest.
        available_share.utc.HOUR | share | Devices that are available at that hour of the day in UTC (00 to 23).
        available_share.local.HOUR | share | Devices that are available at that hour of their own local time.
    """,
    )
    scope = "both"

    def measure(self, run: LogView) -> dict[str, float]:
        """Return shares of the devices; nothing where they were not counted."""
        if not len(run.gauges):
            return {}
        devices: Counter[str] = Counter()
        for zones in run.setting.groups.values():
            devices.update(zones)
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
