"""When devices are there: by hour of their day, and over time how many clients could be selected."""

from dataclasses import replace
from datetime import UTC

import numpy as np
import polars as pl

from fedsim.common.formatting import count, percent
from fedsim.common.instants import DAY_S, time_unit
from fedsim.measure.series import SLOT_S
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.plot import AxisLook, Rule, Series, line_plot
from fedsim.pages.charts.rounds import WAITING
from fedsim.run.run import Run

_HOURS = {float(hour): f"{hour:02d}" for hour in range(0, 25, 3)}


def local_chart(run: Run) -> Chart | None:
    """Draw when sessions begin and, but of a log without check-ins, when devices are available, by hour of their day.

    None within one day, and where devices are always available.
    """
    days, starts = int(run.simulated_s // DAY_S), run.series.get("starts")
    shares = np.array([run.known.get(f"population.available_share.local.{h:02d}", np.nan) for h in range(24)])
    gauged = bool(np.isfinite(shares).all()) or run.scenario.log is None
    if not days or starts is None or (gauged and not np.ptp(shares) > 0):
        return None
    begun, counted, zones = np.zeros(24), list[float](), set[str]()
    for (zone,), slots in starts.filter(pl.col("slot") < days * DAY_S / SLOT_S).group_by("time_zone"):
        hours = _local(run, slots["slot"] * SLOT_S, zone).dt.hour()
        begun += np.bincount(hours.to_numpy(), weights=slots["len"].to_numpy(), minlength=24)
        zones.add(str(zone or ""))
    for (zone,), gauges in run.gauges.group_by("time_zone"):
        counted += (_local(run, gauges["time_s"], zone).dt.minute() / 60).to_list()
    if not begun.any():
        return None
    hour, title = np.arange(24.0), "When sessions begin"
    series = [Series("sessions begun", hour + 0.5, begun / begun.mean(), marks.SERIES[1])]
    look, share = AxisLook("local hour" if any(zones) else "hour (UTC)", ticks=_HOURS), begun / begun.sum()
    if gauged:
        title, share = "When devices are available and take part", shares
        at = float(np.mean(counted))  # devices are counted at instants, on the hour by default
        series = [Series("available devices", hour + at, shares / shares.mean(), marks.SERIES[0]), *series]
    low, high = int(share.argmin()), int(share.argmax())
    what, when = ("devices available", "at") if gauged else ("sessions begun", "in the hour of")
    finding = f"From {percent(share[low])} of the {what} {when} {low}:00 to {percent(share[high])} {when} {high}:00."
    return line_plot("hours", title, series, look, AxisLook("times the mean of the day"), finding=finding)


def _local(run: Run, seconds: pl.Series, zone: object) -> pl.Series:
    """Return instants since the start as times of a zone."""
    passed = pl.duration(microseconds=(pl.lit(seconds) * 1e6).cast(pl.Int64))
    at = pl.lit(run.scenario.start.astimezone(UTC)) + passed
    return pl.select(at.dt.convert_time_zone(str(zone or "UTC"))).to_series()


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
    finding = "Eligible: available, not waiting for its next turn, and not in a session."
    chart = line_plot("eligible", "Clients that could be selected", series, x, y, rules, sampled(run), finding)
    return replace(chart, aside=run.known.get("rounds.waiting_share", 0.0) < WAITING)


def sampled(run: Run) -> tuple[str, ...]:
    """Say so where the gauges did not count everyone: a note, or none."""
    most = run.scenario.records.gauge_sample
    if most is None or len(run.clients) <= most:
        return ()
    return (f"Counted among {count(most)} evenly spaced clients, and scaled up to all.",)
