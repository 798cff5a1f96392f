"""When devices are there, by hour of the day: the share available, what keeps clients out, the sessions begun."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedsim.analysis.hours import hours_of
from fedsim.common.arrays import Floats, Ints
from fedsim.report.charts.eligible import sampled
from fedsim.report.charts.marks import label_axes, legend, linear, panels, percents, series_color
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, listing, percent
from fedsim.report.gathered import SLOT
from fedsim.report.tables import Table

ZONES = 6
"""Time zones shown at most: those with the most devices."""

LEAST = 3
"""With gauges in fewer hours of the day there is nothing to see."""

HOURS = np.arange(24)
REASONS = {
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
    """The devices of one time zone over the hours 0 to 23.

    Parameters
    ----------
    name
        Its IANA name.
    devices
        How many devices live there.
    share
        Share of them that is available, on average over the gauges in each hour; NaN where none fell into it.
    sessions
        Sessions begun in an hour of simulated time, on average over the hours that were simulated; NaN where none was.
    """

    name: str
    devices: int
    share: Floats
    sessions: Floats


@dataclass(frozen=True)
class Availability:
    """Zones by the hour of one clock.

    Parameters
    ----------
    clock
        Whose hours they are: UTC, or the one zone that all devices live in.
    zones
        The zones, the one with the most devices first.
    omitted
        How many more there are.
    reasons
        Share of all clients against whom each reason stands that ever does, by its name; averaged as in `Zone`.
    sampled
        A note that the gauges did not count everyone, or none.
    """

    clock: str
    zones: tuple[Zone, ...]
    omitted: int
    reasons: dict[str, Floats]
    sampled: tuple[str, ...] = ()


def availability_data(run: FinishedRun) -> Availability | str:
    """Compute the chart's data, or say why there is none."""
    if run.gauges is None or run.gauges.is_empty():
        return "The scenario asks for no gauges: records.gauges says how often to count the devices."
    devices: dict[str, int] = dict(run.clients.group_by("time_zone", maintain_order=True).len().iter_rows())
    if run.gauges["available"].sum() == len(run.clients) * run.gauges["time_s"].n_unique():
        return "Every device was available all the time, so that all hours are alike."
    clock = next(iter(devices)) if len(devices) == 1 else "UTC"
    ranked = sorted(devices, key=lambda name: -devices[name])
    zones = tuple(_zone(run, name, devices[name], ZoneInfo(clock)) for name in ranked[:ZONES])
    return Availability(clock, zones, len(ranked) - len(zones), _reasons(run, ZoneInfo(clock)), sampled(run))


def _reasons(run: FinishedRun, clock: ZoneInfo) -> dict[str, Floats]:
    """Return the shares of clients against whom reasons stand; none of a run whose gauges did not tell reasons."""
    assert run.gauges is not None
    known = [column for column in REASONS if column in run.gauges.columns and int(run.gauges[column].sum())]
    if known in ([], ["in_session"]):
        return {}
    counted = run.gauges.group_by("time_s").agg(pl.col(known).sum()).sort("time_s")
    found = {}
    for column in known:
        total, times = _by_hour(run, counted["time_s"].to_numpy(), counted[column].to_numpy(), clock)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[REASONS[column]] = total / (times * len(run.clients))
    return found


def _zone(run: FinishedRun, name: str, devices: int, clock: ZoneInfo) -> Zone:
    assert run.gauges is not None
    counted = run.gauges.filter(time_zone=name).group_by("time_s").agg(pl.col("available").sum()).sort("time_s")
    begun = run.gathered.starts.filter(time_zone=name).group_by("slot").agg(pl.col("len").sum()).sort("slot")
    available, times = _by_hour(run, counted["time_s"].to_numpy(), counted["available"].to_numpy(), clock)
    sessions, _ = _by_hour(run, SLOT * begun["slot"].to_numpy(), begun["len"].to_numpy(), clock)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Zone(name, devices, available / (times * devices), sessions / _exposure(run, clock))


def _by_hour(run: FinishedRun, times_s: Floats, values: Ints, clock: ZoneInfo) -> tuple[Floats, Floats]:
    """Sum values by the clock's hour, and count them."""
    hours = hours_of(times_s, run.scenario.start, clock)
    total = np.bincount(hours, weights=values, minlength=24).astype(np.float64)
    return total, np.bincount(hours, minlength=24).astype(np.float64)


def _exposure(run: FinishedRun, clock: ZoneInfo) -> Floats:
    """Return how many hours of simulated time fell into each hour of the day."""
    slots = SLOT * np.arange(np.ceil(run.simulated_s / SLOT), dtype=np.float64)
    lengths = np.minimum(SLOT, run.simulated_s - slots) / timedelta(hours=1).total_seconds()
    return np.bincount(hours_of(slots, run.scenario.start, clock), weights=lengths, minlength=24).astype(np.float64)


class AvailabilityChart:
    """The share of devices that is available by hour of the day, and the sessions begun over it."""

    title, section, height = "Who is there, by the hour", "devices", 1.6

    def prepare(self, run: FinishedRun) -> Availability | str:
        data = availability_data(run)
        if isinstance(data, str) or max(int(np.isfinite(zone.share).sum()) for zone in data.zones) >= LEAST:
            return data
        return f"The gauges cover fewer than {LEAST} hours of the day."

    def notes(self, data: Availability) -> list[str]:
        notes = [
            "Above: devices whose required conditions hold, as a share of those in the time zone. "
            "Below: sessions begun in an hour, averaged over the days of the run.",
            *data.sampled,
        ]
        if data.reasons:
            notes.append("Middle: clients against whom each reason stands; several can stand against one client.")
        if data.omitted:
            notes.append(f"The {ZONES} time zones with the most devices; {count(data.omitted)} more are left out.")
        return notes

    def finding(self, data: Availability) -> str:
        zone = data.zones[0]
        low, high = int(np.nanargmin(zone.share)), int(np.nanargmax(zone.share))
        least, most = percent(zone.share[low]), percent(zone.share[high])
        where = f"In {zone.name} " if len(data.zones) > 1 else ""
        return f"{where}{least} are there at {low:02}:00, {most} at {high:02}:00 ({data.clock})"

    def description(self, data: Availability) -> str:
        parts = [
            f"in {zone.name} from {percent(np.nanmin(zone.share))} at {np.nanargmin(zone.share):02}:00 "
            f"to {percent(np.nanmax(zone.share))} at {np.nanargmax(zone.share):02}:00"
            for zone in data.zones
            if np.isfinite(zone.share).any()
        ]
        against = [
            f"{name} up to {percent(np.nanmax(share))} at {np.nanargmax(share):02}:00"
            for name, share in data.reasons.items()
        ]
        why = f" Clients are {listing(against)}." if against else ""
        return f"Available devices by hour of the day ({data.clock}): {listing(parts)}.{why}"

    def table(self, data: Availability) -> Table:
        several = len(data.zones) > 1
        header = ["Hour"]
        for zone in data.zones:
            suffix = f", {zone.name}" if several else ""
            header += [f"Available{suffix}", f"Sessions an hour{suffix}"]
        header += [name.capitalize() for name in data.reasons]
        rows = tuple(
            (
                f"{k:02}",
                *(cell for each in data.zones for cell in (percent(each.share[k]), fixed(each.sessions[k], 1))),
                *(percent(share[k]) for share in data.reasons.values()),
            )
            for k in HOURS.tolist()
        )
        return Table(f"Availability by hour ({data.clock})", tuple(header), rows, words=0)

    def draw(self, data: Availability, axes: Axes) -> None:
        """Draw the shares above, the reasons in the middle, the sessions below, over the hours of the day."""
        above, *middle, below = panels(axes, (1.35, 1.2, 1) if data.reasons else (1.35, 1))
        entries = []
        for index, zone in enumerate(data.zones):
            color = series_color(index)
            (share,) = above.plot(HOURS + 0.5, zone.share, color=color, marker="o", markersize=2.6)
            below.stairs(np.nan_to_num(zone.sessions), np.arange(25), color=color, linewidth=1.5, baseline=None)
            entries.append((share, f"{zone.name} ({count(zone.devices)})"))
        for axes_of_reasons in middle:
            for index, (name, against) in enumerate(data.reasons.items(), start=len(data.zones)):
                (line,) = axes_of_reasons.plot(HOURS + 0.5, against, color=series_color(index), linestyle="--")
                entries.append((line, name))
            axes_of_reasons.set_ylim(bottom=0)
            percents(axes_of_reasons)
            label_axes(axes_of_reasons, "", "reasons against clients, of all")
        above.set_ylim(bottom=0)
        below.set_ylim(bottom=0)
        percents(above)
        linear(below, "y")
        below.set_xlim(0, 24)
        below.xaxis.set_major_locator(FixedLocator([0, 3, 6, 9, 12, 15, 18, 21, 24]))
        below.xaxis.set_major_formatter(FuncFormatter(lambda hour, _: f"{hour:02.0f}"))
        label_axes(above, "", "available, of the devices there")
        label_axes(below, f"hour of the day ({data.clock})", "sessions begun per hour")
        legend(above, entries)
