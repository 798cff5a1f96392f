"""A figure along a sweep: means over the seeds as a line with intervals; and the parts of a loss, as lines too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, listing, number
from fedsim.measure.metrics import describe
from fedsim.pages.charts import Chart, marks, plot
from fedsim.pages.choice import LossParts
from fedsim.pages.finding import BIAS
from fedsim.pages.metric_wording import MetricWording
from fedsim.pages.sweep import Line, Lines, line_data
from fedsim.pages.tables import thinned
from fedsim.trials.contrasts import interval
from fedsim.trials.trials import Trials

_VALUES = 9  # up to so many values of a parameter are all written under the axis, where there is room
LABEL = 12  # characters of a value that fit under an axis


def line_chart(
    trials: Trials, wording: MetricWording, name: str, title: str, theory: str | None = None, chosen: int | None = None
) -> Chart | None:
    """Make the chart of a metric along a sweep, in the unit of its wording; None where no run has a value."""
    data = line_data(trials, wording.metric, theory, wording.scale)
    if data is None:
        return None
    sure = any(np.isfinite(line.half).any() for line in data.lines)
    bands = "; bands are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the mean" if sure else ""
    known = describe(wording.metric)
    most = 100.0 if wording.about == BIAS or (known is not None and known.unit == "share") else None
    shown = replace(data, metric=wording.short, most=most, chosen=chosen)
    return lines_chart(shown, name, title, [f"Points are means over the seeds of {wording.metric}{bands}."])


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
