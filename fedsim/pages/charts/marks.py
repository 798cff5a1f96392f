"""What charts are made of: colours, marks, scales, labels, bins of values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FixedFormatter, FixedLocator, Formatter, LogLocator, MaxNLocator, NullFormatter

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import number
from fedsim.common.instants import DAY_S, HOUR_S, time_unit

POINTS = 160  # at most so many points of one line: about three pixels each in the page
INK = "#1c2126"
MUTED = "#5d6670"
RULE = "#dcdfe1"
PAPER = "#fffffe"
SERIES = ("#0b63a5", "#c8500a", "#0c8265", "#a8478a", "#946c00", "#3c8dc4")
"""Okabe and Ito's colours, which colour-blind readers can tell apart, darkened to stand out from white."""
DOTTED = (0, (1, 1.6))
DASHED = (0, (3.5, 2))

_LONGEST_LABEL = 42  # characters of a name that fit into a legend
_MARK = 6  # the room of the mark of each entry of a legend, in characters
_NAMES = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
_STEPS = {"hours": [1, 2, 3, 6, 10], "minutes": [1, 1.5, 2, 3, 6, 10], "seconds": [1, 1.5, 2, 3, 6, 10]}
_CLOCK_STEPS = ((6, 2.5 * DAY_S), (12, 4 * DAY_S), (24, 10 * DAY_S))
"""Hours between ticks on a clock, and the longest time for which they are used."""
_LEAST_ON_CLOCK = 0.5 * DAY_S
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class Binned:
    """Values along x in bins of neighbours; every array has one entry a bin."""

    first: Floats  # x of the first value in the bin
    last: Floats  # x of the last value in the bin
    mean: Floats  # of the values in the bin
    low: Floats  # the least of them
    high: Floats  # the greatest of them
    size: int  # values in the largest bin: 1 where nothing was averaged

    @property
    def x(self) -> Floats:
        """The middle of each bin."""
        return (self.first + self.last) / 2


def edges(count: int, bins: int = POINTS) -> Ints:
    """Cut ``0..count`` into at most so many non-empty bins: where each starts, and at the end `count`."""
    if count <= bins:
        return np.arange(count + 1, dtype=np.int64)
    return np.linspace(0, count, bins + 1).astype(np.int64)


def binned(x: Floats, y: Floats, cuts: Ints) -> Binned:
    """Bin y along x (sorted, finite, as long as the last cut says) between the cuts."""
    if len(x) == 0:
        nothing = np.empty(0)
        return Binned(nothing, nothing, nothing, nothing, nothing, 0)
    starts, sizes = cuts[:-1], np.diff(cuts)
    return Binned(
        first=x[starts],
        last=x[cuts[1:] - 1],
        mean=np.add.reduceat(y, starts) / sizes,
        low=np.minimum.reduceat(y, starts),
        high=np.maximum.reduceat(y, starts),
        size=int(sizes.max()),
    )


def series_color(index: int) -> str:
    """Give the colour of a series; the colours repeat when there are more series than colours."""
    return SERIES[index % len(SERIES)]


def spans_decades(values: Floats, ratio: float) -> bool:
    """Tell whether values call for a logarithmic axis: all positive, and far apart."""
    return len(values) > 0 and bool(values.min() > 0) and bool(values.max() > ratio * values.min())


def percent_tick(value: float, _: object) -> str:
    """Label the tick of a share as a percentage."""
    return f"{number(100 * value)}\N{NARROW NO-BREAK SPACE}%"


class Spaced(Formatter):
    """Labels ticks with as many digits as it takes to tell neighbours apart."""

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Label all ticks at once."""
        places = np.unique(np.asarray(values, dtype=np.float64))
        step = np.diff(places).min(initial=np.inf)
        if not 0 < step < np.inf:
            return [number(value) for value in values]
        # One more than the leading digit of the step: ticks may lie 2.5 apart.
        digits = np.floor(np.log10(np.abs(places).max())) - np.floor(np.log10(step)) + 2
        return [number(0 if abs(value) < step / 1e6 else value, int(np.clip(digits, 4, 12))) for value in values]


def logarithmic(axes: Axes, axis: str) -> None:
    """Give an axis a logarithmic scale with labels that can be read, however few decades it spans."""
    axes.set(**{f"{axis}scale": "log"})
    ticks = axes.xaxis if axis == "x" else axes.yaxis
    low, high = ticks.get_view_interval()
    subs = (1.0, 2.0, 5.0) if np.log10(high / low) < 2.3 else (1.0,)
    ticks.set_major_locator(LogLocator(subs=subs, numticks=8))
    ticks.set_major_formatter(lambda value, _: number(value))
    ticks.set_minor_formatter(NullFormatter())


def clock_axis(axes: Axes, start: datetime, zone: str, longest_s: float, size: float) -> str | None:
    """Set up the x axis, whose unit is `size` seconds, for the time of day in a zone; returns its title.

    None where so much or so little time is shown that hours of the day are no help: the axis is left as it is.
    """
    step = next((hours for hours, most in _CLOCK_STEPS if longest_s <= most), None)
    if step is None or longest_s < _LEAST_ON_CLOCK:
        return None
    clock = ZoneInfo(zone)
    first = start.astimezone(clock).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    walls = [first + timedelta(hours=hours) for hours in range(0, int(longest_s / HOUR_S) + 49, step)]
    places = [(wall.replace(tzinfo=clock) - start).total_seconds() for wall in walls]
    shown = [(at / size, wall) for at, wall in zip(places, walls, strict=True) if 0 <= at <= longest_s]
    labels = [f"{wall:%H}\n{_DAYS[wall.weekday()]}" if wall.hour == 0 else f"{wall:%H}" for _, wall in shown]
    axes.set_xlim(0, longest_s / size)
    axes.xaxis.set_major_locator(FixedLocator([at for at, _ in shown]))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    return f"time of day ({zone})"


def linear(axes: Axes, axis: str, whole: bool = False) -> None:
    """Give an axis a linear scale with few labels; whole numbers only where it counts something."""
    if whole and axis == "x":
        low, high = axes.get_xlim()
        # One round or one client: leave room for a whole number on either side of it.
        axes.set_xlim(min(low, (low + high) / 2 - 1.2), max(high, (low + high) / 2 + 1.2))
    ticks = axes.xaxis if axis == "x" else axes.yaxis
    ticks.set_major_locator(MaxNLocator(nbins=5, integer=whole, steps=[1, 2, 2.5, 5, 10]))
    ticks.set_major_formatter(Spaced())


def spans(axes: Axes, starts: Floats, ends: Floats, y: tuple[float, float], color: str, alpha: float = 1.0) -> Artist:
    """Fill the rectangles from each start to its end and from y[0] to y[1]: one path, however many there are."""
    corners = np.empty((len(starts), 5, 2))
    corners[:, :, 0] = np.stack([starts, ends, ends, starts, starts], axis=1)
    corners[:, :, 1] = [y[0], y[0], y[1], y[1], y[0]]
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(starts))
    # An empty path would have no extent, and a patch without one spoils the limits of the axes.
    outline = Path(corners.reshape(-1, 2), codes) if len(starts) else Path(np.zeros((1, 2)))
    patch = PathPatch(outline, facecolor=color, edgecolor="none", alpha=alpha, linewidth=0)
    axes.add_artist(patch)
    return patch


def joined(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Join spans, in the order of their starts, that overlap or touch."""
    if not len(starts):
        return starts, ends
    first = np.flatnonzero(np.append(True, starts[1:] > np.maximum.accumulate(ends)[:-1]))
    return starts[first], np.maximum.reduceat(ends, first)


def dots(axes: Axes, x: Any, y: Any, color: str, size: float, marker: str = "o", **style: Any) -> Line2D:
    """Draw marks that no line joins."""
    (artist,) = axes.plot(x, y, linestyle="", marker=marker, markersize=size, color=color, **style)
    return artist


def time_scale(longest_s: float) -> tuple[float, str]:
    """Choose the unit for times up to so many seconds: its length in seconds, and its name in the plural."""
    size, unit = time_unit(longest_s)
    return size, _NAMES[unit]


def time_axis(axes: Axes, unit: str, longest: float) -> str:
    """Set up the x axis for times from 0 up to `longest` units; returns its title."""
    axes.set_xlim(0, longest or 1.0)
    # Steps that suit a clock do not suit a few hours or minutes: 0.6 hours are hard to read.
    steps = _STEPS[unit] if unit in _STEPS and longest > 9 else [1, 2, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=steps))
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    return f"simulated time ({unit} since the start)"


def percents(axes: Axes) -> None:
    """Label the ticks of shares on the y axis as percentages."""
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(percent_tick)


def named_rows(axes: Axes, names: Sequence[str]) -> Floats:
    """Set up the y axis for a row for each name, the first on top; returns where the rows are."""
    rows = np.arange(len(names), dtype=np.float64)[::-1]
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.yaxis.set_major_locator(FixedLocator(rows.tolist()))
    axes.yaxis.set_major_formatter(lambda row, _: names[len(names) - 1 - round(row)])
    axes.grid(visible=True, axis="x", color=RULE)
    axes.grid(visible=False, axis="y")
    return rows


def panels(axes: Axes, ratios: Sequence[float]) -> list[Axes]:
    """Put axes of these relative heights, above each other and with one x axis, in the place of one."""
    place = axes.get_subplotspec()
    assert place is not None
    axes.remove()
    grid = place.subgridspec(len(ratios), 1, height_ratios=list(ratios))
    return list(grid.subplots(sharex=True, squeeze=False)[:, 0])


def rule(axes: Axes, *, x: float | None = None, y: float = 0.0, color: str = INK) -> Artist:
    """Draw a dotted line across the axes: a value to compare with."""
    line_at, place = (axes.axhline, y) if x is None else (axes.axvline, x)
    return line_at(place, color=color, linestyle=DOTTED, linewidth=1)


def set_scale(axes: Axes, axis: str, far: bool) -> None:
    """Give an axis a logarithmic scale where values lie far apart, else a linear one."""
    (logarithmic if far else linear)(axes, axis)


def small() -> float:
    """Return the points of small text, as in a legend."""
    return FontProperties(size=matplotlib.rcParams["legend.fontsize"]).get_size_in_points()


def finish(axes: Axes, x: str, y: str, entries: Sequence[tuple[Artist, str]] = ()) -> None:
    """Name the axes, with units, and put the legend above them.

    The name of the y axis stands above it, where it is read without turning the head.
    """
    axes.set_xlabel(x, loc="right")
    axes.set_title(y, loc="left")
    if entries:
        legend(axes, entries)


def legend(axes: Axes, entries: Sequence[tuple[Artist, str]]) -> None:
    """Put the legend above everything, over as many lines as it takes."""
    figure = axes.get_figure(root=True)
    if figure is None:
        return
    names = [shortened(name) for _, name in entries]
    fit = characters(figure.get_figwidth(), small())
    columns = max(1, min(len(names), fit // (max(map(len, names)) + _MARK)))
    if sum(len(name) + _MARK for name in names) <= fit:
        columns = len(names)
    places = [str(index) for index in range(len(names))]
    box = figure.legend([artist for artist, _ in entries], places, loc="outside upper left", ncols=columns)
    # Set afterwards: matplotlib would take a name that starts with an underscore for a wish to be left out.
    for text, name in zip(box.get_texts(), names, strict=True):
        text.set_text(name)


def characters(inches: float, points: float) -> int:
    """Return how many characters of text of so many points fit into a line of so many inches."""
    return int(inches * 72 / (0.585 * points))


def shortened(name: str, longest: int = _LONGEST_LABEL) -> str:
    """Cut the middle out of a name that is too long for its place."""
    half = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"
