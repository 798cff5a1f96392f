"""When devices are there: the share available by hour of the day, and over time how many clients could be selected."""

from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, from_to, listing, percent
from fedsim.common.instants import HOUR_S
from fedsim.measure.metrics.population import hours_of, share_by_hour
from fedsim.measure.series import SLOT_S
from fedsim.pages.charts import Chart, marks, plot
from fedsim.run.run import Run

ZONES = 6  # time zones shown at most: those with the most devices
_LEAST = 3  # with gauges in fewer hours of the day there is nothing to see
_REASONS = {
    "no_charger": "not charging",
    "no_network": "no network",
    "in_use": "in use",
    "unavailable": "not available",
    "shock": "out in a shock",
    "cooling_down": "cooling down",
    "in_session": "in a session",
    "spent": "spent",
}
"""Columns of the gauges that tell why clients are not eligible, and their names."""
_HOURS = np.arange(24) + 0.5


def hourly(run: Run) -> tuple[str, dict[str, tuple[Floats, Floats]]]:
    """Return whose hours are shown, and by the name of each time zone with the most devices two figures by hour.

    They are the share of its devices that is available, on average over the gauges in each hour, and the sessions begun
    in an hour of simulated time; NaN where there is no such hour.
    """
    clock = clock_of(run.clients)
    devices = run.clients.group_by("time_zone", maintain_order=True).len().sort("len", descending=True)
    zones = {}
    for name, size in devices.head(ZONES).iter_rows():
        available = share_by_hour(run.gauges, {name: size}, run.scenario.start, local=clock == name)
        begun = run.series["starts"].filter(time_zone=name)
        sessions = _by_hour(run, clock, SLOT_S * begun["slot"].to_numpy(), begun["len"].to_numpy())
        # How many hours of simulated time fell into each hour of the day
        slots = SLOT_S * np.arange(np.ceil(run.simulated_s / SLOT_S), dtype=np.float64)
        exposure = _by_hour(run, clock, slots, np.minimum(SLOT_S, run.simulated_s - slots) / HOUR_S)
        share = np.array([available.get(hour, np.nan) for hour in range(24)])
        zones[name] = share, _over(sessions, exposure)
    return clock, zones


def _over(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def _by_hour(run: Run, clock: str, times_s: Floats, values: Floats | Ints | None = None) -> Floats:
    """Sum values at times by the clock's hour, or count them."""
    hours = hours_of(times_s, run.scenario.start, ZoneInfo(clock))
    return np.bincount(hours, weights=values, minlength=24).astype(np.float64)


def _reasons(run: Run, clock: str) -> dict[str, Floats]:
    """Return the share of the clients that each reason makes ineligible; none where the gauges have no reasons."""
    known = [column for column in _REASONS if column in run.gauges.columns and int(run.gauges[column].sum())]
    if known in ([], ["in_session"]):
        return {}
    counted = run.gauges.group_by("time_s").agg(pl.col(known).sum())
    times_s = counted["time_s"].to_numpy()
    possible = _by_hour(run, clock, times_s) * len(run.clients)
    return {_REASONS[each]: _over(_by_hour(run, clock, times_s, counted[each].to_numpy()), possible) for each in known}


def hour_chart(run: Run) -> Chart | None:
    """Draw the share of devices that is available by hour of the day, why others are not, and the sessions begun."""
    title = "Available devices, by hour of the day"
    if run.gauges.is_empty():
        return None
    if run.gauges["available"].sum() == len(run.clients) * run.gauges["time_s"].n_unique():
        return None
    clock, zones = hourly(run)
    if max(int(np.isfinite(share).sum()) for share, _ in zones.values()) < _LEAST:
        return None
    reasons, hour = _reasons(run, clock), f"hour of the day ({clock})"
    colors = [marks.series_color(index) for index in range(len(zones) + len(reasons))]
    shares, begun = list[plot.Series](), list[plot.Series]()
    for (name, (share, sessions)), color in zip(zones.items(), colors, strict=False):
        shares.append(plot.Series(name if len(zones) > 1 else "available", _HOURS, share, color))
        begun.append(plot.Series("", _HOURS, np.nan_to_num(sessions), color, "steps"))
    others = zip(reasons.items(), colors[len(zones) :], strict=True)
    against = [plot.Series(name, _HOURS, share, color, "dashed") for (name, share), color in others]
    sides: list[tuple[list[plot.Series], plot.AxisLook]] = [(shares, ("available, of the devices there", "percent"))]
    sides += [(against, ("not eligible, of all", "percent"))] if against else []
    sides += [(begun, ("sessions begun in an hour", "linear"))]

    def draw(axes: Axes) -> None:
        panels = marks.panels(axes, [1.35, *([1.2] if against else []), 1])
        for panel, (series, y) in zip(panels, sides, strict=True):
            plot.draw_lines(panel, series, (hour if panel is panels[-1] else "", "linear"), y)
            panel.set_ylim(0, 1.04 * panel.get_ylim()[1])
        panels[-1].set_xlim(0, 24)
        panels[-1].xaxis.set_major_locator(FixedLocator(range(0, 25, 3)))
        panels[-1].xaxis.set_major_formatter(lambda hour, _: f"{hour:02.0f}")

    known = {name: share for name, (share, _) in zones.items() if np.isfinite(share).any()}
    ends = [f"{name} {from_to(percent(np.nanmin(each)), percent(np.nanmax(each)))}" for name, each in known.items()]
    notes = [*sampled(run)]
    if against:
        notes.append("Several reasons can stand against one client.")
    if (omitted := run.clients["time_zone"].n_unique() - len(zones)) > 0:
        notes.append(f"The {ZONES} time zones with the most devices; {count(omitted)} more are left out.")
    return Chart(
        name="availability",
        title=title,
        description=f"Share of the devices that is available, by hour of the day ({clock}): {listing(ends)}.",
        notes=tuple(notes),
        table=plot.series_table(title, [*shares, *against], (hour, "whole"), ("share of devices", "percent")),
        draw=draw,
        height=1.6 if against else 1.2,
    )


def clock_of(clients: pl.DataFrame) -> str:
    """Return whose time of day clients are shown by: the one zone that they live in, or UTC."""
    zones = clients["time_zone"].drop_nulls().unique()
    return str(zones[0]) if len(zones) == 1 else "UTC"


def lacking(run: Run) -> tuple[Floats, Floats]:
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


def eligible_chart(run: Run) -> Chart | None:
    """Draw how many clients could be selected over time, and when that was too few; None where it never changed."""
    if run.gauges["time_s"].n_unique() < 2:
        return None
    total = run.gauges.group_by("time_s").agg(pl.col("available", "eligible").sum()).sort("time_s")
    starts, ends = lacking(run)
    if not len(starts) and all(total[name][1:].n_unique() == 1 for name in ("available", "eligible")):
        return None
    size, unit = marks.time_scale(run.simulated_s)
    longest, times = run.simulated_s / size, total["time_s"].to_numpy() / size
    available, eligible = (
        marks.binned(times, total[name].cast(pl.Float64).to_numpy(), marks.edges(len(times)))
        for name in ("available", "eligible")
    )
    top = 1.1 * max(float(available.high.max()), run.wanted or 0.0, 1.0)
    notes = ["Eligible: available, cooled down, and not in a session.", *sampled(run)]
    if len(starts):
        share = percent(float((ends - starts).sum() / run.simulated_s)) if run.simulated_s else ""
        notes.append(
            f"Shaded: {count(len(starts), 'round')} waited, were skipped or went on with fewer clients than they "
            f"wanted, {share} of the simulated time."
        )

    def before(axes: Axes) -> None:
        # At least a hair wide, or the shortest shortages would not be seen at all.
        until = np.maximum(ends / size, starts / size + longest / 400)
        marks.spans(axes, *marks.joined(starts / size, until), (0, top), marks.SERIES[1], alpha=0.24)

    def after(axes: Axes) -> None:
        axes.set_ylim(0, top)
        clock = clock_of(run.clients)
        along = marks.clock_axis(axes, run.scenario.start, clock, longest * size, size)
        axes.set_xlabel(along or marks.time_axis(axes, unit, longest), loc="right")

    return plot.line_plot(
        "eligible",
        "Clients that could be selected",
        [plot.Series.of("available", available, marks.MUTED), plot.Series.of("eligible", eligible, marks.SERIES[0])],
        (f"simulated time ({unit})", "linear"),
        ("clients", "linear"),
        rules=[plot.Rule(f"{count(run.wanted)} wanted", run.wanted)] if run.wanted else [],
        notes=notes,
        before=before,
        after=after,
    )


def sampled(run: Run) -> tuple[str, ...]:
    """Say so where the gauges did not count everyone: a note, or none."""
    most = run.scenario.records.gauge_sample
    if most is None or len(run.clients) <= most:
        return ()
    return (f"Counted among {count(most)} evenly spaced clients, and scaled up to all.",)
