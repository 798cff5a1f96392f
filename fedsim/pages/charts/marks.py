"""What charts are made of: colours, scales with labels that can be read, legends."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Literal, TypeAlias

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from fedsim.common.arrays import Floats
from fedsim.common.formatting import cut, number

INK = "#1c2126"
MUTED = "#5d6670"
RULE = "#dcdfe1"
PAPER = "#fffffe"
SERIES = ("#0b63a5", "#c8500a", "#0c8265", "#a8478a", "#946c00", "#3c8dc4")
"""Okabe and Ito's colours, which colour-blind readers can tell apart, darkened to stand out from white."""
_SHADES = ("#c98a14", "#c0508c", "#5560c8")
DOTTED = (0, (1, 1.6))
DASHED = (0, (3.5, 2))

AxisScale: TypeAlias = Literal["linear", "from 0", "whole", "percent", "log", "auto"]
"""Of an axis; ``auto`` is logarithmic where all values are positive, and far apart."""
_FAR = 8.0  # how many times the least value the greatest one then is
_LONGEST_LABEL = 44  # characters of a name that fit into a line of a legend
_BESIDE_TICKS = 0.85  # of the width of a figure, the room for the names of its axes
_MARK = 6  # the room of the mark of each entry of a legend, in characters


def series_color(index: int) -> str:
    """Give the colour of a series; the colours repeat when there are more series than colours."""
    return SERIES[index % len(SERIES)]


def shades(number: int) -> list[str]:
    """Give colours to series that have an order of their own, from light to dark."""
    ends = [np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) for color in _SHADES]
    places = np.linspace(0, len(ends) - 1, number)
    mixed = [np.interp(places, range(len(ends)), [each[at] for each in ends]) for at in range(3)]
    return ["#" + "".join(f"{round(value):02x}" for value in color) for color in zip(*mixed, strict=True)]


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


def is_log(scale: AxisScale, values: Floats) -> bool:
    """Tell whether values are drawn by their decades."""
    if scale != "auto" or not len(values):
        return scale == "log"
    return bool(values.min() > 0) and bool(values.max() > _FAR * values.min())


def set_scale(
    axes: Axes, name: Literal["x", "y"], scale: AxisScale, values: Floats, ticks: Mapping[float, str] | None = None
) -> None:
    """Give an axis a scale with few labels, or with labels of its own at some places.

    What is never negative does not reach below 0 on a y axis; it begins at 0, unless all values are far above it or the
    scale is ``auto``.
    """
    axis, far = axes.xaxis if name == "x" else axes.yaxis, is_log(scale, values)
    if far:
        getattr(axes, f"set_{name}scale")("log", nonpositive="mask")
        low, high = axis.get_view_interval()
        subs = (1.0, 2.0, 5.0) if np.log10(high / low) < 2.3 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8 if name == "y" or len(subs) > 1 else 3))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    near = {"auto": 0.0, "from 0": high}.get(scale, 0.7 * high)
    if name == "y" and not far and len(values) and values.min() >= 0 and low < near:
        axes.set_ylim(0, 1.1 * high if scale == "from 0" else high)
    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_major_formatter(FixedFormatter(list(ticks.values())))
    elif not far:
        steps = [1, 2, 2.5, 5, 10]
        axis.set_major_locator(MaxNLocator(nbins=5, integer=scale == "whole", steps=steps, min_n_ticks=1))
        shares = PercentFormatter(1.0, symbol="\N{NARROW NO-BREAK SPACE}%")
        axis.set_major_formatter(shares if scale == "percent" else Spaced())


def finish(axes: Axes, x: str, y: str, entries: Sequence[tuple[Artist, str]] = ()) -> None:
    """Name the axes, with units, and put the legend above everything, over as many lines as it takes.

    The name of the y axis stands above it, where it is read without turning the head.
    """
    figure = axes.get_figure(root=True)
    points = FontProperties(size=matplotlib.rcParams["legend.fontsize"]).get_size_in_points()
    fit = characters(figure.get_figwidth() if figure is not None else np.inf, points)
    axes.set_xlabel(fill(x, int(_BESIDE_TICKS * fit)), loc="right")
    axes.set_title(fill(y, int(_BESIDE_TICKS * fit)), loc="left")
    if not entries or figure is None:
        return
    names = [fill(cut(name, 2 * _LONGEST_LABEL), _LONGEST_LABEL) for _, name in entries]
    figure.legend([artist for artist, _ in entries], names, loc="outside upper left", ncols=in_columns(names, fit))


def in_columns(names: Sequence[str], fit: int) -> int:
    """Return how many columns of a legend fit into a line of so many characters."""
    alone = sum(len(name) + _MARK for name in names) <= fit
    return len(names) if alone else max(1, fit // (min(_LONGEST_LABEL, max(map(len, names))) + _MARK))


def characters(inches: float, points: float) -> int:
    """Return how many characters of text of so many points fit into a line of so many inches."""
    return int(inches * 72 / (0.585 * points))
