"""The one builder of charts of lines: values along x with their intervals, rules, labels at their ends, a table."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fedsim.common.formatting import above_dust, capitalized, from_to, listing_of, number, percent
from fedsim.pages.charts import Chart, marks
from fedsim.pages.tables import Table, thinned

_ROUNDING = 1e-12  # of the largest value of a chart: smaller ones are 0
_EARLY = 0.75  # of the axis: a line that ends before has its name there
_LONGEST_AT_END = 16  # characters of a name that fit beside the end of a line

AxisScale: TypeAlias = Literal["linear", "whole", "log", "percent"]
AxisLook: TypeAlias = tuple[str, AxisScale]
"""The title of an axis, with the unit, and its scale."""


@dataclass(frozen=True, eq=False)
class Series:
    """Values along x, and the ends of an interval around each where there are any."""

    name: str
    x: NDArray[np.floating[Any]]
    y: NDArray[np.floating[Any]]
    color: str = marks.SERIES[0]
    look: Literal["line", "marked", "dashed", "dots", "ring", "steps"] = "line"
    low: NDArray[np.floating[Any]] | None = None
    high: NDArray[np.floating[Any]] | None = None

    @classmethod
    def of(cls, name: str, points: marks.Binned, color: str, dashed: bool = False) -> "Series":
        """Return the means of bins, and the least and the greatest value of each where bins hold several."""
        ends = (points.low, points.high) if points.size > 1 and not dashed else (None, None)
        return cls(name, points.x, points.mean, color, "dashed" if dashed else "line", *ends)


@dataclass(frozen=True)
class Rule:
    """A value to compare with: a dotted line across the chart."""

    name: str
    at: float
    axis: Literal["x", "y"] = "y"
    color: str = marks.INK


def line_plot(
    name: str,
    title: str,
    series: Sequence[Series],
    x: AxisLook,
    y: AxisLook,
    *,
    rules: Sequence[Rule] = (),
    notes: Sequence[str] = (),
    before: Callable[[Axes], None] = lambda _: None,
    after: Callable[[Axes], None] = lambda _: None,
) -> Chart:
    """Make a chart of lines: `before` draws what lies under them, `after` sets limits and ticks of its own."""
    write = percent if y[1] == "percent" else above_dust
    ways = [f"“{each.name}” {from_to(write(each.y[0]), write(each.y[-1]))}" for each in series if len(each.y)]
    description = capitalized(f"{y[0]} by {x[0]}: {listing_of(ways, 8)}.")

    def draw(axes: Axes) -> None:
        before(axes)
        draw_lines(axes, series, x, y, rules, after)

    return Chart(name, title, description, tuple(notes), series_table(title, series, x, y), draw)


def series_table(title: str, series: Sequence[Series], x: AxisLook, y: AxisLook) -> Table:
    """Make the table of lines: a row for each place along x, a column for each line."""
    least = _ROUNDING * max((float(np.nan_to_num(np.abs(each.y)).max(initial=0.0)) for each in series), default=0.0)
    known = [np.where(np.abs(each.y) < least, 0.0, each.y) for each in series]
    values = [dict(zip(each.x.tolist(), y.tolist(), strict=True)) for each, y in zip(series, known, strict=True)]
    write, places = percent if y[1] == "percent" else above_dust, sorted({at for column in values for at in column})
    rows = [(number(place, 7), *(write(column.get(place)) for column in values)) for place in places]
    return thinned(f"{title}: {y[0]}", (x[0].capitalize(), *(each.name for each in series)), rows)


def draw_lines(
    axes: Axes,
    series: Sequence[Series],
    x: AxisLook,
    y: AxisLook,
    rules: Sequence[Rule] = (),
    after: Callable[[Axes], None] = lambda _: None,
) -> None:
    """Draw lines and rules on axes, with a label at the end of each, or a legend where names are long."""
    entries: list[tuple[Artist, str]] = []
    ends: list[tuple[float | None, float, str]] = []  # x of what is labelled beside it, y, and colour
    far = max((float(each.x[-1]) for each in series if len(each.x)), default=0.0)
    for each in series:
        are_dots, single = each.look in {"dots", "ring"}, len(each.x) == 1
        if each.low is not None and each.high is not None and (are_dots or single):
            axes.vlines(each.x, each.low, each.high, color=each.color, linewidth=1)
        elif each.low is not None and each.high is not None:
            axes.fill_between(each.x, each.low, each.high, color=each.color, alpha=0.16, linewidth=0)
        style: dict[str, Any] = {"linestyle": {"dots": "", "ring": "", "dashed": marks.DASHED}.get(each.look, "-")}
        style |= {"drawstyle": "steps-mid" if each.look == "steps" else "default", "zorder": 4 if are_dots else 2}
        marked = are_dots or single or each.look == "marked"
        style |= {"marker": "o" if marked else "", "markersize": 5 if len(each.x) < 60 else 2.6}
        style |= {"markersize": 12, "markeredgewidth": 2, "markerfacecolor": "none"} if each.look == "ring" else {}
        (artist,) = axes.plot(each.x, each.y, color=each.color, **style)
        entries.append((artist, each.name))
        beside = single if are_dots else x[1] != "log" and each.x[-1] < _EARLY * far
        last = int(np.flatnonzero(np.isfinite(each.y))[-1])
        ends.append((float(each.x[last]) if beside else None, float(each.y[last]), each.color))
    for level in rules:
        entries.append((marks.rule(axes, color=level.color, **{level.axis: level.at}), level.name))
        ends.append((None, level.at, level.color))
    for axis, (_, scale) in (("x", x), ("y", y)):
        if scale == "log":
            marks.logarithmic(axes, axis)
        elif scale == "percent":
            marks.percents(axes)
        else:
            marks.linear(axes, axis, whole=scale == "whole")
    named = [(artist, name) for artist, name in entries if name]
    direct = len(named) > 1 and max(len(name) for _, name in named) <= _LONGEST_AT_END
    marks.finish(axes, x[0], y[0], () if direct or len(named) < 2 else named)
    after(axes)
    if direct:
        _label(axes, [(*end, name) for (_, name), end in zip(entries, ends, strict=True) if name])


def _label(axes: Axes, labels: Sequence[tuple[float | None, float, str, str]]) -> None:
    """Write names beside single dots, and to the right of lines, one above the other where these end close together."""
    size = marks.small()
    gap = 1.2 * size * axes.figure.dpi / 72 / axes.bbox.height
    to_axes = axes.transData + axes.transAxes.inverted()
    ends: list[tuple[float, str, str]] = []
    taken = Counter[tuple[float, float]]()
    for x, y, color, name in labels:
        if x is None:
            ends.append((float(np.clip(to_axes.transform((axes.get_xlim()[1], y))[1], 0, 1)), color, name))
        else:
            taken[x, y] += 1
            below = -1.3 * size * taken[x, y]
            axes.annotate(name, (x, y), (9, below), textcoords="offset points", color=color, fontsize=size)
    at = np.array([place for place, *_ in sorted(ends)])
    for index in range(1, len(at)):
        at[index] = max(at[index], at[index - 1] + gap)
    at -= max(0.0, float(at.max(initial=0.0)) - 1)
    for place, (_, color, name) in zip(at, sorted(ends), strict=True):
        axes.text(1.02, place, name, transform=axes.transAxes, color=color, va="center", fontsize=size)
