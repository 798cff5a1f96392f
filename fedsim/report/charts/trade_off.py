"""What evenness costs: bias against the pace of training, one point for each separation of a sweep."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.report.binning import Floats
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import MUTED, label_axes, legend, linear, series_color
from fedsim.report.charts.sweep_lines import L1, LINES, axis_of, positions
from fedsim.report.finished_sweep import FinishedSweep, estimates, followed, short, values_of
from fedsim.report.formatting import count, fixed, number
from fedsim.report.tables import Table, thinned

NAME, TITLE = "trade-off", "What evenness costs"
PACE = "rounds.per_day"


@dataclass(frozen=True)
class Trail:
    """Points that share the values of all parameters but the one that is followed, in its order.

    Parameters
    ----------
    name
        Those values; empty where there is but one trail.
    values
        The value of the parameter at each point.
    pace, bias
        Means over the seeds: rounds per simulated day; L1 distance from uniform.
    pace_half, bias_half
        Halves of their 95\N{NARROW NO-BREAK SPACE}% confidence intervals; NaN where not known.
    """

    name: str
    values: tuple[str, ...]
    pace: Floats
    pace_half: Floats
    bias: Floats
    bias_half: Floats


@dataclass(frozen=True)
class TradeOff:
    """The trails along one parameter; `omitted` of them are left out."""

    along: str
    trails: tuple[Trail, ...]
    omitted: int


def trade_off_data(sweep: FinishedSweep) -> TradeOff | None:
    """Compute the chart's data; None where a figure is missing or nothing is swept."""
    along = axis_of(sweep)
    bias, pace = estimates(sweep, L1), estimates(sweep, PACE)
    both = np.isfinite(bias.mean) & np.isfinite(pace.mean)
    if along is None or not both.any():
        return None
    values = np.array(values_of(sweep, along))
    trails = [
        Trail(name, tuple(values[own].tolist()), pace.mean[own], pace.half[own], bias.mean[own], bias.half[own])
        for name, own in followed(sweep, along, positions(sweep, along)[0], both)
    ]
    return TradeOff(along, tuple(trails[:LINES]), max(0, len(trails) - LINES))


def trade_off_chart(sweep: FinishedSweep) -> Chart | Absent:
    """Make the trade-off plot."""
    data = trade_off_data(sweep)
    if data is None:
        return Absent(NAME, TITLE, f"No run has both {L1} and {PACE}.")
    first = data.trails[0]
    name = short(data.along)
    notes = [
        f"One point for each {name}: left is slower, down is more even. The best corner is below on the right. "
        "Bars are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the means."
    ]
    if data.omitted:
        notes.append(f"{count(data.omitted, 'more path')} in the table of points.")
    return Chart(
        name=NAME,
        title=TITLE,
        description=(
            f"L1 distance from uniform against rounds per day: {fixed(first.bias[0])} at {number(first.pace[0])} "
            f"rounds a day with {name} = {first.values[0]}; {fixed(first.bias[-1])} at {number(first.pace[-1])} rounds "
            f"a day with {name} = {first.values[-1]}."
        ),
        notes=tuple(notes),
        table=_table(data),
        draw=partial(draw_trade_off, data),
    )


def _table(data: TradeOff) -> Table:
    rows: list[tuple[str, ...]] = [
        (trail.name, value, *(number(figure) for figure in figures))
        for trail in data.trails
        for value, *figures in zip(trail.values, trail.pace, trail.pace_half, trail.bias, trail.bias_half, strict=True)
    ]
    header: tuple[str, ...] = ("Path", short(data.along), "Rounds a day", "± 95 %", "L1 from uniform", "± 95 %")
    if len(data.trails) == 1:
        rows, header = [row[1:] for row in rows], header[1:]
    return thinned("Bias and pace", header, rows)


def _labels(data: TradeOff, axes: Axes) -> list[tuple[str, float, float]]:
    """Name the points, the ends of the trails first, and leave out names that would lie on others."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    found: list[tuple[str, float, float]] = []
    for ends in (True, False):
        for trail in data.trails:
            for index, (value, pace, bias) in enumerate(zip(trail.values, trail.pace, trail.bias, strict=True)):
                text = f"{short(data.along)} = {value}" if index == 0 else value
                room = all(
                    abs(pace - x) > (0.03 + 0.011 * (len(text) + len(other))) * wide or abs(bias - y) > 0.07 * tall
                    for other, x, y in found
                )
                if room and ends == (index in {0, len(trail.values) - 1}):
                    found.append((text, float(pace), float(bias)))
    return found


def draw_trade_off(data: TradeOff, axes: Axes) -> None:
    """Draw each trail with its points named."""
    entries: list[tuple[Artist, str]] = []
    for index, trail in enumerate(data.trails):
        color = series_color(index)
        axes.errorbar(
            trail.pace,
            trail.bias,
            xerr=np.nan_to_num(trail.pace_half),
            yerr=np.nan_to_num(trail.bias_half),
            linestyle="",
            color=color,
            linewidth=1,
            capsize=2,
        )
        (drawn,) = axes.plot(trail.pace, trail.bias, color=color, marker="o", markersize=5, linewidth=1)
        entries.append((drawn, trail.name or "measured"))
    axes.margins(0.12)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    for text, pace, bias in _labels(data, axes):
        axes.annotate(text, (pace, bias), xytext=(5, 5), textcoords="offset points", color=MUTED, fontsize=8)
    linear(axes, "x")
    linear(axes, "y")
    label_axes(axes, "rounds per simulated day", "L1 distance from uniform")
    if len(entries) > 1:
        legend(axes, entries)
