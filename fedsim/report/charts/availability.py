"""When devices are there, by hour of the day: the share available, what keeps clients out, the sessions begun."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.analysis.metrics.population import hours_of
from fedsim.common.arrays import Floats, Ints
from fedsim.report.charts.eligible import sampled
from fedsim.report.charts.marks import finish, linear, panels, percents, series_color
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent
from fedsim.report.gathered import SLOT_S
from fedsim.report.tables import Table

ZONES = 6  # time zones shown at most: those with the most devices
_LEAST = 3  # with gauges in fewer hours of the day there is nothing to see
_HOURS = np.arange(24)
_REASONS = {
    "no_charger": "on no charger",
    "no_network": "without a network",
    "in_use": "in use",
    "unavailable": "not available",
    "shock": "out in a shock",
    "cooling_down": "cooling down",
    "in_session": "in a session",
    "spent": "out of participations",
}
"""Columns of the gauges that tell why clients are not eligible, and their names."""


@dataclass(frozen=True)
class Zone:
    """The devices of one time zone over the hours 0 to 23."""

    name: str
    devices: int
    share: Floats  # of them that is available, on average over the gauges in each hour; NaN where there are none
    sessions: Floats  # begun in an hour of simulated time, on average; NaN where no such hour was simulated


@dataclass(frozen=True)
class HourlyAvailability:
    """Zones by the hour of one clock."""

    clock: str  # whose hours they are: UTC, or the one zone that all devices live in
    zones: tuple[Zone, ...]
    omitted: int
    reasons: dict[str, Floats]  # share of all clients that a reason makes ineligible, by its name; as in `Zone`
    sampled: tuple[str, ...] = ()  # a note that the gauges did not count everyone, or none


def availability_data(run: FinishedRun) -> HourlyAvailability | str:
    """Compute the chart's data, or say why there is none."""
    if run.gauges is None or run.gauges.is_empty():
        return "The scenario asks for no gauges: records.gauges says how often to count the devices."
    devices: dict[str, int] = dict(run.clients.group_by("time_zone", maintain_order=True).len().iter_rows())
    if run.gauges["available"].sum() == len(run.clients) * run.gauges["time_s"].n_unique():
        return "Every device was available all the time, so that all hours are alike."
    clock = next(iter(devices)) if len(devices) == 1 else "UTC"
    ranked = sorted(devices, key=lambda name: -devices[name])
    zones = tuple(_zone(run, name, devices[name], ZoneInfo(clock)) for name in ranked[:ZONES])
    return HourlyAvailability(clock, zones, len(ranked) - len(zones), _reasons(run, ZoneInfo(clock)), sampled(run))


def _reasons(run: FinishedRun, clock: ZoneInfo) -> dict[str, Floats]:
    """Return the share of the clients that each reason makes ineligible; none where the gauges have no reasons."""
    assert run.gauges is not None
    known = [column for column in _REASONS if column in run.gauges.columns and int(run.gauges[column].sum())]
    if known in ([], ["in_session"]):
        return {}
    counted = run.gauges.group_by("time_s").agg(pl.col(known).sum()).sort("time_s")
    found = {}
    for column in known:
        total, times = _by_hour(run, counted["time_s"].to_numpy(), counted[column].to_numpy(), clock)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[_REASONS[column]] = total / (times * len(run.clients))
    return found


def _zone(run: FinishedRun, name: str, devices: int, clock: ZoneInfo) -> Zone:
    assert run.gauges is not None
    counted = run.gauges.filter(time_zone=name).group_by("time_s").agg(pl.col("available").sum()).sort("time_s")
    begun = run.gathered.starts.filter(time_zone=name).group_by("slot").agg(pl.col("len").sum()).sort("slot")
    available, times = _by_hour(run, counted["time_s"].to_numpy(), counted["available"].to_numpy(), clock)
    sessions, _ = _by_hour(run, SLOT_S * begun["slot"].to_numpy(), begun["len"].to_numpy(), clock)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Zone(name, devices, available / (times * devices), sessions / _exposure(run, clock))


def _by_hour(run: FinishedRun, times_s: Floats, values: Ints, clock: ZoneInfo) -> tuple[Floats, Floats]:
    """Sum values by the clock's hour, and count them."""
    hours = hours_of(times_s, run.scenario.start, clock)
    return _sum_by_hour(hours, values), _sum_by_hour(hours)


def _sum_by_hour(hours: Ints, values: Floats | Ints | None = None) -> Floats:
    return np.bincount(hours, weights=values, minlength=24).astype(np.float64)


def _exposure(run: FinishedRun, clock: ZoneInfo) -> Floats:
    """Return how many hours of simulated time fell into each hour of the day."""
    slots = SLOT_S * np.arange(np.ceil(run.simulated_s / SLOT_S), dtype=np.float64)
    lengths = np.minimum(SLOT_S, run.simulated_s - slots) / timedelta(hours=1).total_seconds()
    return _sum_by_hour(hours_of(slots, run.scenario.start, clock), lengths)


class AvailabilityChart:
    """The share of devices that is available by hour of the day, and the sessions begun over it."""

    title, section, height = "Who is there, by the hour", "devices", 1.6

    def prepare(self, run: FinishedRun) -> HourlyAvailability | str:
        data = availability_data(run)
        if isinstance(data, str) or max(int(np.isfinite(zone.share).sum()) for zone in data.zones) >= _LEAST:
            return data
        return f"The gauges cover fewer than {_LEAST} hours of the day."

    def notes(self, data: HourlyAvailability) -> Iterator[str]:
        yield (
            "Above: devices whose required conditions hold, as a share of those in the time zone. "
            "Below: sessions begun in an hour, averaged over the days of the run."
        )
        yield from data.sampled
        if data.reasons:
            yield "Middle: clients against whom each reason stands; several can stand against one client."
        if data.omitted:
            yield f"The {ZONES} time zones with the most devices; {count(data.omitted)} more are left out."

    def finding(self, data: HourlyAvailability) -> str:
        name, share = data.zones[0].name, data.zones[0].share
        low, high = int(np.nanargmin(share)), int(np.nanargmax(share))
        where = f"In {name} " if len(data.zones) > 1 else ""
        least, most = percent(share[low]), percent(share[high])
        return f"{where}{least} are there at {low:02}:00, {most} at {high:02}:00 ({data.clock})"

    def description(self, data: HourlyAvailability) -> str:
        def at(share: Floats, hour: np.integer[Any]) -> str:
            return f"{percent(share[hour])} at {hour:02}:00"

        shares = [(zone.name, zone.share) for zone in data.zones if np.isfinite(zone.share).any()]
        parts = [f"in {name} from {at(x, np.nanargmin(x))} to {at(x, np.nanargmax(x))}" for name, x in shares]
        against = [f"{name} up to {at(share, np.nanargmax(share))}" for name, share in data.reasons.items()]
        why = f" Clients are {listing(against)}." if against else ""
        return f"Available devices by hour of the day ({data.clock}): {listing(parts)}.{why}"

    def table(self, data: HourlyAvailability) -> Table:
        columns = {"Hour": [f"{hour:02}" for hour in _HOURS.tolist()]}
        for zone in data.zones:
            suffix = f", {zone.name}" if len(data.zones) > 1 else ""
            columns[f"Available{suffix}"] = [percent(share) for share in zone.share]
            columns[f"Sessions an hour{suffix}"] = [fixed(sessions, 1) for sessions in zone.sessions]
        for name, shares in data.reasons.items():
            columns[name.capitalize()] = [percent(share) for share in shares]
        rows = tuple(zip(*columns.values(), strict=True))
        return Table(f"Availability by hour ({data.clock})", tuple(columns), rows, words=0)

    def draw(self, data: HourlyAvailability, axes: Axes) -> None:
        """Draw the shares above, the reasons in the middle, the sessions below, over the hours of the day."""
        above, *middle, below = panels(axes, (1.35, 1.2, 1) if data.reasons else (1.35, 1))
        entries = []
        for index, zone in enumerate(data.zones):
            color = series_color(index)
            (share,) = above.plot(_HOURS + 0.5, zone.share, color=color, marker="o", markersize=2.6)
            below.stairs(np.nan_to_num(zone.sessions), np.arange(25), color=color, linewidth=1.5, baseline=None)
            entries.append((share, f"{zone.name} ({count(zone.devices)})"))
        for panel in middle:
            for index, (name, against) in enumerate(data.reasons.items(), start=len(data.zones)):
                (line,) = panel.plot(_HOURS + 0.5, against, color=series_color(index), linestyle="--")
                entries.append((line, name))
            finish(panel, "", "reasons against clients, of all")
        for panel in (above, *middle):
            panel.set_ylim(bottom=0)
            percents(panel)
        below.set_ylim(bottom=0)
        linear(below, "y")
        below.set_xlim(0, 24)
        below.xaxis.set_major_locator(FixedLocator([0, 3, 6, 9, 12, 15, 18, 21, 24]))
        below.xaxis.set_major_formatter(lambda hour, _: f"{hour:02.0f}")
        finish(below, f"hour of the day ({data.clock})", "sessions begun per hour")
        finish(above, "", "available, of the devices there", entries)
