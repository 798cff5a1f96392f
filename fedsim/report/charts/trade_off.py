"""What evenness costs: bias against the pace of training, one point for each separation of a sweep."""

from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import MUTED, label_axes, legend, linear, series_color
from fedsim.report.charts.sweep_lines import L1, Line, Lines, line_data
from fedsim.report.finished_sweep import Estimates, FinishedSweep, short
from fedsim.report.formatting import count, fixed, number
from fedsim.report.tables import Table, thinned

NAME, TITLE = "trade-off", "What evenness costs"
PACE = "rounds.per_day"


def trade_off_chart(sweep: FinishedSweep) -> Chart | Absent:
    """Make the trade-off plot."""
    data = line_data(sweep, L1, beside=PACE)
    if data is None:
        return Absent(NAME, TITLE, f"No run has both {L1} and {PACE}.")
    bias, pace = data.lines[0], _pace(data.lines[0]).mean
    first, last = data.at(bias.x[0]), data.at(bias.x[-1])
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
            f"L1 distance from uniform against rounds per day: {fixed(bias.mean[0])} at {number(pace[0])} "
            f"rounds a day with {name} = {first}; {fixed(bias.mean[-1])} at {number(pace[-1])} rounds "
            f"a day with {name} = {last}."
        ),
        notes=tuple(notes),
        table=_table(data),
        draw=partial(draw_trade_off, data),
    )


def _pace(trail: Line) -> Estimates:
    assert trail.beside is not None
    return trail.beside


def _table(data: Lines) -> Table:
    rows: list[tuple[str, ...]] = [
        (trail.name, data.at(x), *(number(figure) for figure in figures))
        for trail in data.lines
        for x, *figures in zip(trail.x, _pace(trail).mean, _pace(trail).half, trail.mean, trail.half, strict=True)
    ]
    header: tuple[str, ...] = ("Path", short(data.along), "Rounds a day", "± 95 %", "L1 from uniform", "± 95 %")
    if len(data.lines) == 1:
        rows, header = [row[1:] for row in rows], header[1:]
    return thinned("Bias and pace", header, rows)


def _labels(data: Lines, axes: Axes) -> list[tuple[str, float, float]]:
    """Name the points, the ends of the trails first, and leave out names that would lie on others."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    found: list[tuple[str, float, float]] = []
    for ends in (True, False):
        for trail in data.lines:
            for index, (place, pace, bias) in enumerate(zip(trail.x, _pace(trail).mean, trail.mean, strict=True)):
                text = f"{short(data.along)} = {data.at(place)}" if index == 0 else data.at(place)
                room = all(
                    abs(pace - x) > (0.03 + 0.011 * (len(text) + len(other))) * wide or abs(bias - y) > 0.07 * tall
                    for other, x, y in found
                )
                if room and ends == (index in {0, len(trail.x) - 1}):
                    found.append((text, float(pace), float(bias)))
    return found


def draw_trade_off(data: Lines, axes: Axes) -> None:
    """Draw each trail with its points named."""
    entries: list[tuple[Artist, str]] = []
    for index, trail in enumerate(data.lines):
        color, pace = series_color(index), _pace(trail)
        axes.errorbar(
            pace.mean,
            trail.mean,
            xerr=np.nan_to_num(pace.half),
            yerr=np.nan_to_num(trail.half),
            linestyle="",
            color=color,
            linewidth=1,
            capsize=2,
        )
        (drawn,) = axes.plot(pace.mean, trail.mean, color=color, marker="o", markersize=5, linewidth=1)
        entries.append((drawn, trail.name or "measured"))
    axes.margins(0.12)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    for text, x, y in _labels(data, axes):
        axes.annotate(text, (x, y), xytext=(5, 5), textcoords="offset points", color=MUTED, fontsize=8.2)
    linear(axes, "x")
    linear(axes, "y")
    label_axes(axes, "rounds per simulated day", "L1 distance from uniform")
    if len(entries) > 1:
        legend(axes, entries)
