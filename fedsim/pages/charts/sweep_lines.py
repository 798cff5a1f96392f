"""A figure along a sweep: means over the seeds as a line with intervals; and the parts of a loss, as lines too."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, listing, number
from fedsim.pages.charts import Chart, marks, plot
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import thinned
from fedsim.pages.trial_tables import LossParts, means
from fedsim.trials.contrasts import interval
from fedsim.trials.trials import Axis, Trials

_LINES = 6  # shown at most
_VALUES = 9  # up to so many values of a parameter are all written under the axis, where there is room
LABEL = 12  # characters of a value that fit under an axis


@dataclass(frozen=True, eq=False)
class Line:
    """The settings that share the values of all parameters but the one along the axis, and a metric at these."""

    name: str  # those values; empty where there is but one line
    points: Ints  # rows of the points of the sweep, in the order of x
    x: Floats  # where each point lies, in ascending order
    mean: Floats  # of the metric over the seeds
    half: Floats  # of the 95 % confidence interval, NaN where it is not known
    theory: Floats | None = None  # what theory says; None where it was not asked


@dataclass(frozen=True, eq=False)
class Lines:
    """A metric along one axis of a sweep."""

    metric: str  # its name on the axis
    along: Axis
    lines: tuple[Line, ...]
    omitted: int = 0
    most: float | None = None  # the largest possible value, where the least is 0: intervals go no further
    logarithmic: bool = False  # whether values are drawn by their decades
    chosen: int | None = None  # the row of the setting that is marked


def line_data(trials: Trials, metric: str, theory: str | None = None, scale: float = 1.0) -> Lines | None:
    """Return a metric along the axis of a sweep, times `scale`; None where it has no value, or nothing is swept."""
    along, found = trials.axis, interval(trials.samples(metric))
    known = np.isfinite(found.mean)
    if along is None or not known.any():
        return None
    mean, half = scale * found.mean, scale * found.half
    predicted = None if theory is None else scale * means(trials, theory)
    lines = []
    for name, own in trials.rows_along(along, known):
        theirs = None if predicted is None or not np.isfinite(predicted[own]).all() else predicted[own]
        lines.append(Line(name, own, along.x[own], mean[own], half[own], theirs))
    return Lines(metric, along, tuple(lines[:_LINES]), max(0, len(lines) - _LINES))


def line_chart(
    trials: Trials, metric: str, name: str, title: str, theory: str | None = None, chosen: int | None = None
) -> Chart | None:
    """Make the chart of a metric along a sweep, in the unit of its wording; None where no run has a value."""
    wording = wording_of(metric)
    data = line_data(trials, metric, theory, wording.scale)
    if data is None:
        return None
    sure = any(np.isfinite(line.half).any() for line in data.lines)
    bands = "; bands are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the mean" if sure else ""
    most = 100.0 if wording.scale != 1 else None
    shown = replace(data, metric=wording.axis, most=most, chosen=chosen)
    return lines_chart(shown, name, title, [f"Points are means over the seeds of {metric}{bands}."])


def lines_chart(data: Lines, name: str, title: str, notes: Sequence[str]) -> Chart:
    """Make the chart of lines that are known."""
    left = [f"{count(data.omitted, 'more line')} in the table of settings."] if data.omitted else []
    ways = [
        f"{f'{line.name}: ' if line.name else ''}{number(line.mean[0])} at {data.along.at(line.x[0])}, "
        f"{number(line.mean[-1])} at {data.along.at(line.x[-1])}"
        for line in data.lines
    ]
    predicted = any(line.theory is not None for line in data.lines)
    rows = [
        (line.name, data.along.at(x), number(line.mean[k], 5), number(line.half[k], 2))
        + ((number(None if line.theory is None else line.theory[k], 5),) if predicted else ())
        for line in data.lines
        for k, x in enumerate(line.x.tolist())
    ]
    banded = any(np.isfinite(line.half).any() for line in data.lines)
    header = ("Line", data.along.name, "Mean", "± 95 %", *(("Theory",) if predicted else ()))
    chart = plot.line_plot(
        name,
        title,
        list(_series(data)),
        (marks.shortened(data.along.label, 44), "linear"),
        (f"{data.metric}{', bands: 95 %' * banded}", "log" if data.logarithmic else "linear"),
        notes=(*notes, *left),
        after=partial(_scale, data),
    )
    description = f"{data.metric} along {data.along.name}: {listing(ways)}."
    return replace(chart, description=description, table=thinned(f"{data.metric} along the sweep", header, rows))


def _series(data: Lines) -> Iterator[plot.Series]:
    """Yield the lines with their bands; theory, where there is one, dashed; a ring around the choice."""
    once = {"theory", "choice"}  # names that stand at the first of several
    for index, line in enumerate(data.lines):
        color, (low, high) = marks.series_color(index), band(line, data.most)
        shown = line.mean > 0 if data.logarithmic else np.isfinite(line.mean)
        low = np.maximum(low, 0.1 * np.abs(line.mean)) if data.logarithmic else low
        if shown.any():
            ends, name = (low[shown], high[shown]), line.name or "measured"
            yield plot.Series(name, line.x[shown], line.mean[shown], color, "marked", *ends)
        if line.theory is not None:
            yield plot.Series("theory, dashed" if "theory" in once else "", line.x, line.theory, color, "dashed")
            once.discard("theory")
        if len(at := np.flatnonzero(line.points == data.chosen)) and (index == 0 or not data.logarithmic):
            name = "choice" if "choice" in once else ""
            yield plot.Series(name, line.x[at], line.mean[at], marks.INK, "ring")
            once.discard("choice")


def band(line: Line, most: float | None) -> tuple[Floats, Floats]:
    """Return the ends of the intervals; a share is from 0 to 1, and so are they."""
    low, high = line.mean - line.half, line.mean + line.half
    return (low, high) if most is None else (np.maximum(low, 0.0), np.minimum(high, most))


def _scale(data: Lines, axes: Axes) -> None:
    low, high = axes.get_ylim()
    if not data.logarithmic and low > 0 and low < 0.7 * high:
        axes.set_ylim(0, high)
    if ticks := data.along.ticks:
        axes.set_xlim(-0.5, len(ticks) - 0.5)
        axes.xaxis.set_major_locator(FixedLocator(list(range(len(ticks)))))
        axes.xaxis.set_major_formatter(lambda x, _: marks.shortened(data.along.marks[round(x)], LABEL))
        return
    x: Floats | Ints = np.concatenate([line.x for line in data.lines])
    values = np.unique(x)
    few = len(values) <= _VALUES and (len(values) < 2 or np.diff(values).min() > 0.07 * np.ptp(values))
    whole = bool((values == np.rint(values)).all())
    if not few and x.min() > 0 and x.max() > 50 * x.min():
        marks.logarithmic(axes, "x")
    else:
        marks.linear(axes, "x", whole=whole)
    if few:
        axes.xaxis.set_major_locator(FixedLocator(values.tolist()))


def parts_chart(trials: Trials, parts: LossParts, chosen: int | None = None) -> Chart | None:
    """Make the chart of the loss of an optimizer and its parts; None where fewer than two settings form one line."""
    along, known = trials.axis, np.isfinite(interval(parts.total)[0])
    ways: list[tuple[str, Ints]] = [] if along is None else list(trials.rows_along(along, known))
    if along is None or len(ways) != 1 or len(ways[0][1]) < 2:
        return None
    rows = ways[0][1]
    intervals = {words: interval(each[rows]) for words, each in ({"whole loss": parts.total} | parts.parts).items()}
    lines = tuple(Line(words, rows, along.x[rows], mean, half) for words, (mean, half) in intervals.items())
    notes = ["Each part is the difference of two runs over the same log, of which one has one thing less."]
    if any((line.mean <= 0).any() for line in lines):
        notes.append("What is zero or less is not on a logarithmic axis; the table has it.")
    best = float(along.x[rows][np.nanargmin(lines[0].mean)])
    title = f"“{parts.name}” ends closest to the optimum at {along.named(best)}"
    data = Lines("loss above the optimum", along, lines, logarithmic=True, chosen=chosen)
    return lines_chart(data, f"parts-{parts.name}", title, notes)
