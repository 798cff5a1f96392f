"""How a figure moves along a sweep: means over the seeds as a line, with the confidence interval as a band.

So does the loss above the optimum of one optimizer: its parts as lines, and their sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.analysis.metrics import describe
from fedsim.common.arrays import Floats, Ints
from fedsim.findings.finished_sweep import Axis, FinishedSweep
from fedsim.findings.formatting import count, listing, number
from fedsim.report.charts import Absent, Chart, marks
from fedsim.report.sweep_choice import LossParts
from fedsim.report.sweep_figures import L1, MetricWording
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import interval

_LINES = len(marks.SERIES)  # lines shown at most: each has a colour of its own
_VALUES = 9  # up to so many values of a parameter are all written under the axis, where there is room
LABEL = 12  # characters of a value that fit under an axis


@dataclass(frozen=True, eq=False)
class Line:
    """One line: the points of the sweep that share the values of all parameters but the one along the axis."""

    name: str  # those values; empty where there is but one line
    points: Ints  # rows of the points of the sweep, in the order of x
    x: Floats  # where each point lies, in ascending order
    mean: Floats  # of the metric over the seeds
    half: Floats  # of the 95 % confidence interval, NaN where it is not known
    theory: Floats | None = None  # what theory says; None where it was not asked


@dataclass(frozen=True, eq=False)
class Lines:
    """A metric along one axis of a sweep."""

    metric: str
    along: Axis
    lines: tuple[Line, ...]
    omitted: int
    most: float | None = None  # the largest possible value, where the least is 0: intervals go no further
    logarithmic: bool = False  # whether values are drawn by their decades; they are positive then


def line_data(sweep: FinishedSweep, metric: str, theory: str | None = None) -> Lines | None:
    """Compute the chart's data; None where the metric has no value, or nothing is swept."""
    along = sweep.axis
    found = sweep.estimates(metric)
    known = np.isfinite(found.mean)
    if along is None or not known.any():
        return None
    predicted = None if theory is None else sweep.estimates(theory).mean
    lines = []
    for name, own in sweep.rows_along(along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        lines.append(Line(name, own, along.x[own], found.mean[own], found.half[own], theirs))
    return Lines(metric, along, tuple(lines[:_LINES]), max(0, len(lines) - _LINES))


def line_chart(
    sweep: FinishedSweep, wording: MetricWording, name: str, title: str, theory: str | None = None
) -> Chart | Absent:
    """Make the chart of a metric along a sweep, in the unit of its wording."""
    data = line_data(sweep, wording.metric, theory)
    if data is None:
        return Absent(name, title, f"No run has a value of {wording.metric}.")
    sure = any(np.isfinite(line.half).any() for line in data.lines)
    bands = "; bands are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the mean" if sure else ""
    scale = wording.scale
    scaled = []
    for line in data.lines:
        theirs = None if line.theory is None else line.theory * scale
        scaled.append(replace(line, mean=line.mean * scale, half=line.half * scale, theory=theirs))
    known = describe(wording.metric)
    greatest = 1 if known is not None and known.unit == "share" else 2 if wording.metric == L1 else None
    most = None if greatest is None else greatest * scale
    note = f"Points are means over the seeds of {wording.metric}{bands}."
    return lines_chart(replace(data, metric=wording.short, lines=tuple(scaled), most=most), name, title, [note])


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
        draw=partial(_draw_lines, data),
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


def _draw_lines(data: Lines, axes: Axes) -> None:
    """Draw the lines with their bands; theory, where there is one, dashed."""
    entries: list[tuple[Artist, str]] = []
    dashed: Artist | None = None
    for index, line in enumerate(data.lines):
        color = marks.series_color(index)
        known = np.isfinite(line.half)
        low, high = band(line, data.most)
        axes.fill_between(line.x, low, high, where=known.tolist(), color=color, alpha=0.18, linewidth=0)
        mean = line.mean[known]
        marks.error_bars(axes, line.x[known], mean, mean - low[known], high[known] - mean, color)
        (drawn,) = axes.plot(line.x, line.mean, color=color, marker="o", markersize=4.2)
        entries.append((drawn, line.name or "measured"))
        if line.theory is not None:
            (dashed,) = axes.plot(line.x, line.theory, color=color, linestyle=marks.DASHED, linewidth=1.1)
    if dashed is not None:
        entries.append((dashed, "theory"))
    _scale(data, axes)
    shown = entries if len(entries) > 1 else ()
    marks.finish(axes, marks.shortened(data.along.label, 44), marks.shortened(data.metric), shown)


def band(line: Line, most: float | None) -> tuple[Floats, Floats]:
    """Return the ends of the intervals; a share is from 0 to 1, and so are they."""
    low, high = line.mean - line.half, line.mean + line.half
    return (low, high) if most is None else (np.maximum(low, 0.0), np.minimum(high, most))


def _mark_values(along: Axis, axes: Axes) -> bool:
    """Write the values under the x axis where they are not numbers; returns whether that is so."""
    if not along.ticks:
        return False
    axes.set_xlim(-0.5, len(along.ticks) - 0.5)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(along.ticks)))))
    axes.xaxis.set_major_formatter(lambda x, _: marks.shortened(along.marks[round(x)], LABEL))
    return True


def _scale(data: Lines, axes: Axes) -> None:
    low, high = axes.get_ylim()
    if data.logarithmic:
        marks.logarithmic(axes, "y")
    else:
        if low > 0 and low < 0.7 * high:
            axes.set_ylim(0, high)
        marks.linear(axes, "y")
    if _mark_values(data.along, axes):
        return
    x: Floats | Ints = np.concatenate([line.x for line in data.lines])
    values = np.unique(x)
    whole = bool((values == np.rint(values)).all())
    if len(values) <= _VALUES and (len(values) < 2 or np.diff(values).min() > 0.07 * np.ptp(values)):
        marks.linear(axes, "x", whole=whole)
        axes.xaxis.set_major_locator(FixedLocator(values.tolist()))
    elif x.min() > 0 and x.max() > 50 * x.min():
        marks.logarithmic(axes, "x")
    else:
        marks.linear(axes, "x", whole=whole)


def _part_lines(sweep: FinishedSweep, parts: LossParts) -> Lines | None:
    """Compute the lines; None where nothing goes along one axis alone, or fewer than two settings have a value."""
    along, known = sweep.axis, np.isfinite(interval(parts.total)[0])
    ways: list[tuple[str, Ints]] = [] if along is None else list(sweep.rows_along(along, known))
    if along is None or len(ways) != 1 or len(ways[0][1]) < 2:
        return None
    rows = ways[0][1]
    named = {"together": parts.total} | parts.parts
    intervals = {words: interval(values[rows]) for words, values in named.items()}
    lines = (Line(words, rows, along.x[rows], mean, half) for words, (mean, half) in intervals.items())
    return Lines("loss above the optimum", along, tuple(lines), 0)


def parts_chart(sweep: FinishedSweep, parts: LossParts) -> Chart | None:
    """Make the chart of an optimizer; None where there are no lines to draw."""
    data = _part_lines(sweep, parts)
    if data is None:
        return None
    x = data.lines[0].x
    best, first, last = float(x[np.nanargmin(data.lines[0].mean)]), data.along.at(x[0]), data.along.at(x[-1])
    ways = [
        f"{line.name} from {number(line.mean[0], 3)} at {first} to {number(line.mean[-1], 3)} at {last}"
        for line in data.lines
    ]
    notes = ["Each part is the difference of two runs over the same log, of which one has one thing less."]
    if any((line.mean <= 0).any() for line in data.lines):
        notes.append("What is zero or less is not on a logarithmic axis; the table has it.")
    if any(((line.half >= line.mean) & (line.mean > 0)).any() for line in data.lines):
        notes.append("An interval that reaches zero is cut off at a tenth of the mean.")
    columns = {line.name: map(_cell, line.mean, line.half) for line in data.lines}
    rows = list(zip(map(data.along.at, x.tolist()), *columns.values(), strict=True))
    return Chart(
        name=f"parts-{parts.name}",
        title=f"{parts.name} ends closest to the optimum at {data.along.named(best)}",
        description=f"Loss of {parts.name} above the optimum along {data.along.name}: {listing(ways)}.",
        notes=tuple(notes),
        table=thinned("Loss above the optimum and its parts", (data.along.name, *columns), rows),
        draw=partial(_draw_parts, data),
    )


def _cell(mean: float, half: float) -> str:
    return f"{number(mean)} ± {number(half, 2)}" if np.isfinite(half) else number(mean)


def _draw_parts(data: Lines, axes: Axes) -> None:
    """Draw a line for each part and one for their sum, on a logarithmic scale, with intervals."""
    entries: list[tuple[Artist, str]] = []
    for index, line in enumerate(data.lines):
        color, width = (marks.INK, 2.2) if index == 0 else (marks.series_color(index - 1), 1.2)
        shown, high = line.mean > 0, np.where(np.isfinite(line.half), line.half, 0.0)
        low = np.minimum(high, 0.9 * np.abs(line.mean))
        x, y = line.x[shown], line.mean[shown]
        marks.error_bars(axes, x, y, low[shown], high[shown], color)
        (drawn,) = axes.plot(x, y, color=color, marker="o", markersize=4.2, linewidth=width)
        entries.append((drawn, line.name))
    marks.logarithmic(axes, "y")
    _mark_values(data.along, axes)
    marks.finish(axes, marks.shortened(data.along.label, 44), data.metric, entries)
