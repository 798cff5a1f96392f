"""When devices are there: the share available by hour of the day, and over time how many clients could be selected."""

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.formatting import count, percent
from fedsim.common.instants import DAY_S, time_unit
from fedsim.measure.metrics.population import hours_of
from fedsim.measure.series import SLOT_S
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rule, Series, line_plot
from fedsim.run.run import Run

ZONES = 6  # time zones shown at most: those with the most devices
_LEAST = 6  # with gauges in fewer hours of the day there is nothing to see
_REASONS = {
    "no_charger": "not charging",
    "no_network": "no network",
    "in_use": "in use",
    "unavailable": "not available",
    "shock": "out in a shock",
    "cooling_down": "cooling down",
    "in_session": "in a session",
    "spent": "out for good",
}
"""Columns of the gauges that tell why clients are not eligible, and their names."""
_HOURS = {float(hour): f"{hour:02d}" for hour in range(0, 25, 3)}


def hourly(run: Run, column: str, zone: str | None = None) -> Floats:
    """Return which share of the clients, or of those in a time zone, a column of the gauges counts by hour of the day.

    It is (24,), on average over the gauges in each hour, NaN where there are none.
    """
    clients, gauges = (each if zone is None else each.filter(time_zone=zone) for each in (run.clients, run.gauges))
    counted = gauges.group_by("time_s").agg(pl.col(column).sum())
    hours = hours_of(counted["time_s"].to_numpy(), run.scenario.start, ZoneInfo(clock_of(run.clients)))
    counts = np.bincount(hours, weights=counted[column].to_numpy(), minlength=24)
    possible = len(clients) * np.bincount(hours, minlength=24)
    return np.where(possible > 0, counts / np.maximum(possible, 1), np.nan).astype(np.float64)


def hour_chart(run: Run) -> Chart | None:
    """Draw the share of devices that is available by hour of the day, and why clients are not eligible."""
    gauges, devices = run.gauges, run.clients.group_by("time_zone", maintain_order=True).len().sort("len")[::-1]
    if gauges.is_empty() or gauges["available"].sum() == len(run.clients) * gauges["time_s"].n_unique():
        return None
    zones = devices["time_zone"].head(ZONES).to_list()
    shares = {zone if len(devices) > 1 else "available": hourly(run, "available", zone) for zone in zones}
    if max(int(np.isfinite(share).sum()) for share in shares.values()) < _LEAST:
        return None
    causes = [column for column in _REASONS if column in gauges.columns and gauges[column].sum()]
    reasons = {} if causes == ["in_session"] else {_REASONS[each]: hourly(run, each) for each in causes}
    at = np.arange(24, dtype=np.float64) + 0.5
    series = [
        Series(name, at, share, marks.series_color(index), "dashed" if name in reasons else "line")
        for index, (name, share) in enumerate((shares | reasons).items())
    ]
    notes = [*sampled(run)]
    if reasons:
        notes.append("Dashed: the share of all clients that a reason excludes; several can exclude one client.")
    if (omitted := len(devices) - len(zones)) > 0:
        notes.append(f"The {ZONES} time zones with the most devices; {count(omitted)} more are left out.")
    x = AxisLook(f"hour of the day ({clock_of(run.clients)})", ticks=_HOURS)
    y = AxisLook("share of the devices", "percent")
    return line_plot("availability", "Available devices, by hour of the day", series, x, y, notes=notes)


def local_chart(run: Run) -> Chart | None:
    """Draw when sessions begin and when devices are available, by hour of their own day; None within one day."""
    days, starts = int(run.simulated_s // DAY_S), run.series.get("starts")
    shares = np.array([run.known.get(f"population.available_share.local.{h:02d}", np.nan) for h in range(24)])
    if not days or starts is None or not np.isfinite(shares).all() or np.ptp(shares) <= 0:
        return None
    begun = np.zeros(24)
    for (zone,), slots in starts.filter(pl.col("slot") < days * DAY_S / SLOT_S).group_by("time_zone"):
        at = slots.select(at=pl.lit(run.scenario.start.astimezone(UTC)) + pl.duration(seconds=pl.col("slot") * SLOT_S))[
            "at"
        ]
        hours = at.dt.convert_time_zone(str(zone or "UTC")).dt.hour()
        begun += np.bincount(hours.to_numpy(), weights=slots["len"].to_numpy(), minlength=24)
    if not begun.any():
        return None
    middle = np.arange(24, dtype=np.float64) + 0.5
    curves = {"available devices": shares, "sessions begun": begun}
    series = [
        Series(name, middle, each / each.mean(), color)
        for (name, each), color in zip(curves.items(), marks.SERIES, strict=False)
    ]
    low, high = int(shares.argmin()), int(shares.argmax())
    finding = (
        f"From {percent(shares[low])} of the devices available at {low}:00 to {percent(shares[high])} at {high}:00."
    )
    look = AxisLook("local hour", ticks=_HOURS), AxisLook("times the mean of the day")
    return line_plot("hours", "When devices are available and take part", series, *look, finding=finding)


def clock_of(clients: pl.DataFrame) -> str:
    """Return whose time of day clients are shown by: the one zone that they live in, or UTC."""
    zones = clients["time_zone"].drop_nulls().unique()
    return str(zones[0]) if len(zones) == 1 else "UTC"


def eligible_chart(run: Run) -> Chart | None:
    """Draw how many clients could be selected over time; None where that never changed."""
    total = run.gauges.group_by("time_s").agg(pl.col("available", "eligible").sum()).sort("time_s")
    if all(total[name][1:].n_unique() <= 1 for name in ("available", "eligible")):
        return None
    size, unit = time_unit(run.simulated_s)
    series = [
        Series.binned(name, total["time_s"].to_numpy() / size, total[name].cast(pl.Float64).to_numpy(), color)
        for name, color in (("available", marks.MUTED), ("eligible", marks.SERIES[0]))
    ]
    x, y = AxisLook(f"simulated time ({unit})"), AxisLook("clients")
    rules = [Rule(f"{count(run.wanted)} wanted", run.wanted)] if run.wanted else []
    notes = ["Eligible: available, cooled down, and not in a session.", *sampled(run)]
    return line_plot("eligible", "Clients that could be selected", series, x, y, rules, notes)


def sampled(run: Run) -> tuple[str, ...]:
    """Say so where the gauges did not count everyone: a note, or none."""
    most = run.scenario.records.gauge_sample
    if most is None or len(run.clients) <= most:
        return ()
    return (f"Counted among {count(most)} evenly spaced clients, and scaled up to all.",)
