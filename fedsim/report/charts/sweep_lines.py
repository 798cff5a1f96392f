"""How a figure moves along a sweep: means over the seeds as a line, with the confidence interval as a band."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedsim.analysis.metrics import describe
from fedsim.common.arrays import Floats, Ints
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import DASHED, SERIES, label_axes, legend, linear, logarithmic, series_color, shortened
from fedsim.report.finished_sweep import Estimates, FinishedSweep, estimates
from fedsim.report.formatting import count, listing, number
from fedsim.report.sweep_axes import Axis, axis_of, followed
from fedsim.report.sweep_figures import L1, Told
from fedsim.report.tables import Table, thinned

LINES = len(SERIES)
"""Lines shown at most: each has a colour of its own."""

VALUES = 9
"""Up to so many values of a parameter are all written under the axis, where there is room."""

LABEL = 12
"""Characters of a value that fit under an axis."""


@dataclass(frozen=True, eq=False)
class Line:
    """One line: the points of the sweep that share the values of all parameters but the one along the axis.

    Parameters
    ----------
    name
        Those values; empty where there is but one line.
    points
        Rows of the points of the sweep, in the order of x.
    x
        Where each point lies, in ascending order.
    mean, half
        Of the metric over the seeds; half of the 95 % confidence interval, NaN where it is not known.
    theory
        What theory says; None where nobody asked.
    beside
        Another metric at the same points; None where nobody asked.
    """

    name: str
    points: Ints
    x: Floats
    mean: Floats
    half: Floats
    theory: Floats | None = None
    beside: Estimates | None = None


@dataclass(frozen=True, eq=False)
class Lines:
    """A metric along one axis of a sweep.

    Parameters
    ----------
    metric
        Its name.
    unit
        Its unit, as the catalogue has it; empty for a plain number.
    along
        The axis.
    lines
        The lines.
    omitted
        Lines left out.
    most
        The largest value that there can be, where the least is 0; intervals go no further. None where there is none.
    logarithmic
        Whether values are drawn by their decades; they are positive then.
    """

    metric: str
    unit: str
    along: Axis
    lines: tuple[Line, ...]
    omitted: int
    most: float | None = None
    logarithmic: bool = False


def line_data(
    sweep: FinishedSweep, metric: str, unit: str = "", theory: str | None = None, beside: str | None = None
) -> Lines | None:
    """Compute the chart's data; None where the metric, or the one beside it, has no value, or nothing is swept."""
    along = axis_of(sweep)
    found = estimates(sweep, metric)
    other = None if beside is None else estimates(sweep, beside)
    known = np.isfinite(found.mean) & (other is None or np.isfinite(other.mean))
    if along is None or not known.any():
        return None
    predicted = None if theory is None else estimates(sweep, theory).mean
    lines = []
    for name, own in followed(sweep, along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        at_these = None if other is None else Estimates(other.mean[own], other.half[own])
        lines.append(Line(name, own, along.x[own], found.mean[own], found.half[own], theirs, at_these))
    return Lines(metric, unit, along, tuple(lines[:LINES]), max(0, len(lines) - LINES))


def line_chart(sweep: FinishedSweep, told: Told, name: str, title: str, theory: str | None = None) -> Chart | Absent:
    """Make the chart of a metric along a sweep, in the unit in which it is told."""
    data = line_data(sweep, told.metric, "", theory)
    if data is None:
        return Absent(name, title, f"No run has a value of {told.metric}.")
    sure = any(np.isfinite(line.half).any() for line in data.lines)
    bands = "; bands are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the mean" if sure else ""
    scaled = tuple(
        replace(
            line,
            mean=line.mean * told.scale,
            half=line.half * told.scale,
            theory=None if line.theory is None else line.theory * told.scale,
        )
        for line in data.lines
    )
    known = describe(told.metric)
    most = told.scale if known is not None and known.unit == "share" else 2 * told.scale if told.metric == L1 else None
    note = f"Points are means over the seeds of {told.metric}{bands}."
    return lines_chart(replace(data, metric=told.short, lines=scaled, most=most), name, title, [note])


def lines_chart(data: Lines, name: str, title: str, notes: Sequence[str]) -> Chart:
    """Make the chart of lines that are known."""
    left = [f"{count(data.omitted, 'more line')} in the table of points."] if data.omitted else []
    ways = [
        f"{f'{line.name}: ' if line.name else ''}from {number(line.mean[0])} at {data.along.at(line.x[0])} "
        f"to {number(line.mean[-1])} at {data.along.at(line.x[-1])}"
        for line in data.lines
    ]
    return Chart(
        name=name,
        title=title,
        description=f"{data.metric} along {data.along.name}: {listing(ways)}.",
        notes=(*notes, *left),
        table=_table(data),
        draw=partial(draw_lines, data),
    )


def _table(data: Lines) -> Table:
    predicted = any(line.theory is not None for line in data.lines)
    rows = []
    for line in data.lines:
        for index, x in enumerate(line.x.tolist()):
            cells = [line.name, data.along.at(x), number(line.mean[index], 5), number(line.half[index], 2)]
            if predicted:
                cells.append(number(None if line.theory is None else line.theory[index], 5))
            rows.append(tuple(cells))
    header = ("Line", data.along.name, "Mean", "± 95 %", *(("Theory",) if predicted else ()))
    if len(data.lines) == 1:
        rows, header = [row[1:] for row in rows], header[1:]
    return thinned(f"{data.metric} along the sweep", header, rows)


def draw_lines(data: Lines, axes: Axes) -> None:
    """Draw the lines with their bands; theory, where there is one, dashed."""
    entries: list[tuple[Artist, str]] = []
    dashed: Artist | None = None
    for index, line in enumerate(data.lines):
        color = series_color(index)
        known = np.isfinite(line.half)
        low, high = band(line, data.most)
        axes.fill_between(line.x, low, high, where=known.tolist(), color=color, alpha=0.18, linewidth=0)
        axes.errorbar(
            line.x[known],
            line.mean[known],
            yerr=np.stack([line.mean - low, high - line.mean])[:, known],
            linestyle="",
            color=color,
            capsize=2.5,
            linewidth=1,
        )
        (drawn,) = axes.plot(line.x, line.mean, color=color, marker="o", markersize=4.2)
        entries.append((drawn, line.name or "measured"))
        if line.theory is not None:
            (dashed,) = axes.plot(line.x, line.theory, color=color, linestyle=DASHED, linewidth=1.1)
    if dashed is not None:
        entries.append((dashed, "theory"))
    _scale(data, axes)
    along = f"{shortened(data.along.label, 44)}"
    label_axes(axes, along, shortened(f"{data.metric} ({data.unit})" if data.unit else data.metric))
    if len(entries) > 1:
        legend(axes, entries)


def band(line: Line, most: float | None) -> tuple[Floats, Floats]:
    """Return the ends of the intervals; a share is from 0 to 1, and so are they."""
    low, high = line.mean - line.half, line.mean + line.half
    return (low, high) if most is None else (np.maximum(low, 0.0), np.minimum(high, most))


def mark_values(along: Axis, axes: Axes) -> bool:
    """Write the values under the x axis where they are no numbers, and say whether they are none."""
    if not along.ticks:
        return False
    axes.set_xlim(-0.5, len(along.ticks) - 0.5)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(along.ticks)))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: shortened(along.marks[round(x)], LABEL)))
    return True


def _scale(data: Lines, axes: Axes) -> None:
    low, high = axes.get_ylim()
    if data.logarithmic:
        logarithmic(axes, "y")
    else:
        if low > 0 and low < 0.7 * high:
            axes.set_ylim(0, high)
        linear(axes, "y")
    if mark_values(data.along, axes):
        return
    x: Floats | Ints = np.concatenate([line.x for line in data.lines])
    values = np.unique(x)
    whole = bool((values == np.rint(values)).all())
    if len(values) <= VALUES and (len(values) < 2 or np.diff(values).min() > 0.07 * np.ptp(values)):
        linear(axes, "x", whole=whole)
        axes.xaxis.set_major_locator(FixedLocator(values.tolist()))
    elif x.min() > 0 and x.max() > 50 * x.min():
        logarithmic(axes, "x")
    else:
        linear(axes, "x", whole=whole)
