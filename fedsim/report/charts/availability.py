"""When devices are there: the share available by hour of the day, and over time how many clients could be selected."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.analysis.metrics.population import hours_of, share_by_hour
from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import HOUR_S
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, fixed, listing, percent
from fedsim.findings.gathered import SLOT_S
from fedsim.report.charts import marks
from fedsim.report.tables import Table, thinned

ZONES = 6  # time zones shown at most: those with the most devices
_LEAST = 3  # with gauges in fewer hours of the day there is nothing to see
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
    zones = tuple(_zone(run, name, devices[name], clock) for name in ranked[:ZONES])
    return HourlyAvailability(clock, zones, len(ranked) - len(zones), _reasons(run, clock), sampled(run))


def _reasons(run: FinishedRun, clock: str) -> dict[str, Floats]:
    """Return the share of the clients that each reason makes ineligible; none where the gauges have no reasons."""
    assert run.gauges is not None
    known = [column for column in _REASONS if column in run.gauges.columns and int(run.gauges[column].sum())]
    if known in ([], ["in_session"]):
        return {}
    counted = run.gauges.group_by("time_s").agg(pl.col(known).sum())
    times_s = counted["time_s"].to_numpy()
    possible = _by_hour(run, clock, times_s) * len(run.clients)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {_REASONS[each]: _by_hour(run, clock, times_s, counted[each].to_numpy()) / possible for each in known}


def _zone(run: FinishedRun, name: str, devices: int, clock: str) -> Zone:
    assert run.gauges is not None
    available = share_by_hour(run.gauges, {name: devices}, run.scenario.start, local=clock == name)
    begun = run.gathered.starts.filter(time_zone=name)
    sessions = _by_hour(run, clock, SLOT_S * begun["slot"].to_numpy(), begun["len"].to_numpy())
    # How many hours of simulated time fell into each hour of the day
    slots = SLOT_S * np.arange(np.ceil(run.simulated_s / SLOT_S), dtype=np.float64)
    exposure = _by_hour(run, clock, slots, np.minimum(SLOT_S, run.simulated_s - slots) / HOUR_S)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Zone(name, devices, np.array([available.get(hour, np.nan) for hour in range(24)]), sessions / exposure)


def _by_hour(run: FinishedRun, clock: str, times_s: Floats, values: Floats | Ints | None = None) -> Floats:
    """Sum values at times by the clock's hour, or count them."""
    hours = hours_of(times_s, run.scenario.start, ZoneInfo(clock))
    return np.bincount(hours, weights=values, minlength=24).astype(np.float64)


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
        share = data.zones[0].share
        least, most = _at(share, np.nanargmin(share), " are there"), _at(share, np.nanargmax(share))
        where = f"In {data.zones[0].name} " if len(data.zones) > 1 else ""
        return f"{where}{least}, {most} ({data.clock})"

    def description(self, data: HourlyAvailability) -> str:
        shares = [(zone.name, zone.share) for zone in data.zones if np.isfinite(zone.share).any()]
        parts = [f"in {name} from {_at(x, np.nanargmin(x))} to {_at(x, np.nanargmax(x))}" for name, x in shares]
        against = [f"{name} up to {_at(share, np.nanargmax(share))}" for name, share in data.reasons.items()]
        why = f" Clients are {listing(against)}." if against else ""
        return f"Available devices by hour of the day ({data.clock}): {listing(parts)}.{why}"

    def table(self, data: HourlyAvailability) -> Table:
        columns = {"Hour": [f"{hour:02}" for hour in range(24)]}
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
        above, *middle, below = marks.panels(axes, (1.35, 1.2, 1) if data.reasons else (1.35, 1))
        entries, hours = [], np.arange(24) + 0.5
        for index, zone in enumerate(data.zones):
            color = marks.series_color(index)
            (share,) = above.plot(hours, zone.share, color=color, marker="o", markersize=2.6)
            below.stairs(np.nan_to_num(zone.sessions), np.arange(25), color=color, linewidth=1.5, baseline=None)
            entries.append((share, f"{zone.name} ({count(zone.devices)})"))
        for panel in middle:
            for index, (name, against) in enumerate(data.reasons.items(), start=len(data.zones)):
                (line,) = panel.plot(hours, against, color=marks.series_color(index), linestyle="--")
                entries.append((line, name))
            marks.finish(panel, "", "reasons against clients, of all")
        for panel in (above, *middle):
            panel.set_ylim(bottom=0)
            marks.percents(panel)
        below.set_ylim(bottom=0)
        marks.linear(below, "y")
        below.set_xlim(0, 24)
        below.xaxis.set_major_locator(FixedLocator(range(0, 25, 3)))
        below.xaxis.set_major_formatter(lambda hour, _: f"{hour:02.0f}")
        marks.finish(below, f"hour of the day ({data.clock})", "sessions begun per hour")
        marks.finish(above, "", "available, of the devices there", entries)


def _at(share: Floats, hour: np.integer[Any], there: str = "") -> str:
    return f"{percent(share[hour])}{there} at {hour:02}:00"


_RESOLUTION = 1_000  # shortages closer to each other than this part of the run are drawn as one


@dataclass(frozen=True)
class Eligible:
    """Clients over simulated time."""

    unit: str
    longest: float  # length of the run, in that unit
    available: marks.Binned  # clients counted by the gauges
    eligible: marks.Binned
    wanted: int | None  # clients that a round wants; None where the manifest does not say
    starts: Floats  # where shortages begin: a round waited, was skipped, or went on with fewer clients than it wanted
    ends: Floats
    rounds: int  # how many rounds that were
    share: float  # share of the simulated time spent so
    sampled: tuple[str, ...]  # a note that the gauges did not count everyone, or none
    size: float  # the unit, in seconds
    start: datetime
    clock: str  # whose time of day is shown: UTC, or the one zone that all devices live in


def clock_of(clients: pl.DataFrame) -> str:
    """Return whose time of day clients are shown by: the one zone that they live in, or UTC."""
    zones = clients["time_zone"].drop_nulls().unique()
    return str(zones[0]) if len(zones) == 1 else "UTC"


def shortages(run: FinishedRun) -> tuple[Floats, Floats, int]:
    """Find the spans of simulated time (seconds) in which rounds lacked clients, and how many rounds that were.

    Those of `lacking`; spans that touch, or nearly so, are one.
    """
    starts, ends = lacking(run)
    if not len(starts):
        return starts, ends, 0
    fresh = np.append(True, starts[1:] > np.maximum.accumulate(ends)[:-1] + run.simulated_s / _RESOLUTION)
    first = np.flatnonzero(fresh)
    return starts[first], np.maximum.reduceat(ends, first), len(starts)


def lacking(run: FinishedRun) -> tuple[Floats, Floats]:
    """Find from when to when (seconds) each round lacked clients that did.

    A round that waited lacked them from its opening until it selected; one that was skipped or went on with fewer
    than it wanted, from its opening to its close.
    """
    # Other laws select more or fewer than wanted by their nature.
    wanted = (run.wanted or 0) if run.scenario.server.fixed_size else 0
    at_close = pl.col("selected_s").is_null() | (pl.col("selected") < wanted)
    end = pl.when(at_close).then("closed_s").otherwise("selected_s")
    rounds = run.rounds.with_columns(pl.col("selected_s").fill_nan(None))
    short = rounds.filter(at_close | (pl.col("selected_s") > pl.col("opened_s"))).select("opened_s", end=end)
    short = short.filter(pl.col("end").is_finite()).sort("opened_s")
    return short["opened_s"].to_numpy(), short["end"].to_numpy()


class EligibleChart:
    """How many clients could be selected over time, and when that was too few for a round."""

    title, section = "Enough clients, or a shortage", "devices"

    def prepare(self, run: FinishedRun) -> Eligible | str:
        if run.gauges is None or run.gauges["time_s"].n_unique() < 2:
            return "Clients were counted fewer than twice: records.gauges says how often to count them."
        total = run.gauges.group_by("time_s").agg(pl.col("available", "eligible").sum()).sort("time_s")
        size, unit = marks.time_scale(run.simulated_s)
        starts, ends, rounds = shortages(run)
        if not rounds and all(total[name][1:].n_unique() == 1 for name in ("available", "eligible")):
            available, ready = total["available"][-1], total["eligible"][-1]
            words = f"Whenever they were counted after the start, {count(available)} clients were available"
            return f"{words} and {count(ready)} eligible: never too few for a round."
        times = total["time_s"].to_numpy() / size
        cuts = marks.edges(len(times))
        return Eligible(
            unit=unit,
            longest=run.simulated_s / size,
            available=marks.binned(times, total["available"].cast(pl.Float64).to_numpy(), cuts),
            eligible=marks.binned(times, total["eligible"].cast(pl.Float64).to_numpy(), cuts),
            wanted=run.wanted,
            starts=starts / size,
            ends=ends / size,
            rounds=rounds,
            share=float(np.subtract(*lacking(run)[::-1]).sum() / run.simulated_s) if run.simulated_s else 0.0,
            sampled=sampled(run),
            size=size,
            start=run.scenario.start,
            clock=clock_of(run.clients),
        )

    def finding(self, data: Eligible) -> str:
        least = count(data.eligible.low.min(), "client")
        if len(data.starts):
            return f"Rounds lacked clients {percent(data.share)} of the time"
        if data.wanted is None:
            return f"Never fewer than {least} eligible when counted"
        return f"Never a shortage: at least {least} eligible when counted, {count(data.wanted)} wanted"

    def notes(self, data: Eligible) -> Iterator[str]:
        yield "Eligible: available, cooled down, and not in a session."
        yield from data.sampled
        if len(data.starts):
            yield (
                f"Shaded: {count(data.rounds, 'round')} had to wait, were skipped or went on with fewer clients than "
                f"they wanted, which took {percent(data.share)} of the simulated time."
            )
        if (size := data.eligible.size) > 1:
            yield f"Lines are means of up to {count(size)} counts; bands go from least to greatest."

    def description(self, data: Eligible) -> str:
        least, most = data.eligible.low.min(), data.eligible.high.max()
        words = f"Eligible clients over {fixed(data.longest, 1)} {data.unit}: from {count(least)} to {count(most)}"
        if data.wanted is not None:
            words += f", where a round wants {count(data.wanted)}"
        return f"{words}. {count(data.rounds, 'round')} met a shortage."

    def table(self, data: Eligible) -> Table:
        columns = (map(count, counted.mean) for counted in (data.available, data.eligible))
        rows = list(zip((fixed(time, 2) for time in data.eligible.first), *columns, strict=True))
        return thinned("Clients over simulated time", (f"From ({data.unit})", "Available", "Eligible"), rows)

    def draw(self, data: Eligible, axes: Axes) -> None:
        lines = ((data.available, marks.MUTED, "available"), (data.eligible, marks.SERIES[0], "eligible"))
        entries = [(marks.line(axes, counted, color), name) for counted, color, name in lines]
        top = 1.1 * max(float(data.available.high.max()), data.wanted or 0.0, 1.0)
        axes.set_ylim(0, top)
        if len(data.starts):
            # At least a hair wide, or the shortest shortages would not be seen at all.
            ends = np.maximum(data.ends, data.starts + data.longest / 400)
            entries.append((marks.spans(axes, data.starts, ends, (0, top), marks.SERIES[1], alpha=0.24), "shortage"))
        if data.wanted is not None:
            entries.append((marks.rule(axes, y=data.wanted), f"wanted by a round ({count(data.wanted)})"))
        marks.linear(axes, "y")
        along = marks.clock_axis(axes, data.start, data.clock, data.longest * data.size, data.size)
        marks.finish(axes, along or marks.time_axis(axes, data.unit, data.longest), "clients", entries)


def sampled(run: FinishedRun) -> tuple[str, ...]:
    """Say so where the gauges did not count everyone: a note, or none."""
    most = run.scenario.records.gauge_sample
    if most is None or len(run.clients) <= most:
        return ()
    return (f"Counted among {count(most)} evenly spaced clients, and scaled up to all.",)
