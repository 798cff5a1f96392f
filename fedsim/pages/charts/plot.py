"""The two builders of charts: values along x as lines and dots, and named rows with intervals; each with its table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator

from fedsim.common.arrays import Bools, Floats
from fedsim.common.formatting import (
    NO_VALUE,
    above_dust,
    capitalized,
    count,
    cut,
    fixed,
    from_to,
    give_or_take,
    listing_of,
    number,
    percent,
)
from fedsim.common.printable import visible
from fedsim.pages.charts import Chart, marks
from fedsim.pages.tables import Table, thinned

POINTS = 160  # at most so many points of one line: about three pixels each in the page
_ROUNDING = 1e-12  # of the largest value of a chart: smaller ones are 0
_ROW_ENTRY = 0.05  # of the height, what each entry of the legend of rows takes
_LINE, _ENTRIES, _ENTRY = 50, 2, 0.085  # characters of a line of a legend, lines that fit, the height of each more
_DESCRIBED = 8  # lines or rows described at most
_ROW_NAME = 28  # characters of a name that fit to the left of a row
_POINT_NAME = 30  # and beside a point
_LETTER = 0.027  # of the width of the axes, what a letter of such a name takes
_SEEN = 0.01  # of the range of a chart: nearer lines are not seen apart
_BAND = 0.03  # of the range: a band that is wider at half of the points of its line can be seen
_COVERED = 0.02  # of the range, in which half of the points of a line lie that another covers
_UNDER = 2  # lines under others that a legend names at most
_BARS = 80.0  # points that all bars above each other take at most
_DECADES = 5  # of a logarithmic axis at most, below the greatest value


class AxisLook(NamedTuple):
    """An axis: its title, with the unit, its scale, and labels of its own at some places."""

    title: str
    scale: marks.AxisScale = "linear"
    ticks: Mapping[float, str] | None = None

    def write(self, place: float) -> str:
        """Write a place on it for a table."""
        return (self.ticks or {}).get(place) or (percent(place) if self.scale == "percent" else number(place, 7))


LineLook: TypeAlias = Literal["line", "marked", "dashed", "dotted", "dots", "hollow", "ring", "bars", "spans", "ticks"]
_FREE: dict[str, Any] = {"linestyle": "", "marker": "o", "zorder": 4, "clip_on": False}
_LOOKS: Mapping[LineLook, Mapping[str, Any]] = {
    "line": {},
    "marked": {"marker": "o", "clip_on": False},
    "dashed": {"linestyle": marks.DASHED},
    "dotted": {"linestyle": marks.DOTTED, "linewidth": 1},
    "bars": {"drawstyle": "steps-mid"},
    "spans": {"solid_capstyle": "butt"},
    "ticks": {"linestyle": "", "marker": "|", "markersize": 9},
    "dots": _FREE,
    "hollow": _FREE | {"markerfacecolor": marks.PAPER},
    "ring": _FREE | {"markersize": 12, "markeredgewidth": 2, "markerfacecolor": "none"},
}


@dataclass(frozen=True, eq=False)
class Series:
    """Values along x, and the intervals around them where there are any."""

    name: str
    x: Floats
    y: Floats
    color: str = marks.SERIES[0]
    look: LineLook = "line"
    margin: Floats | None = None  # half of each interval, or (2, n): how far it reaches down and up
    size: int = 1  # how many values each point is the mean of, at most
    names: Sequence[str] = ()  # of the first points, written beside them
    scale: marks.AxisScale = "auto"
    interval: str = "95\N{NARROW NO-BREAK SPACE}% intervals"  # what the margins are
    apart: Bools | bool = False  # the points that are not compared: crosses, which the line leaves out

    @classmethod
    def binned(cls, name: str, x: Floats, y: Floats, color: str = marks.SERIES[0], **look: Any) -> Self:
        """Make a line of values along x (ascending), of many the means over bins of neighbours, with their ends."""
        cuts = np.linspace(0, len(x), min(len(x), POINTS) + 1).astype(np.int64)
        sizes = np.diff(cuts)
        if sizes.max(initial=0) <= 1:
            return cls(name, x, y, color, **look)
        mean, starts = np.add.reduceat(y, cuts[:-1]) / sizes, cuts[:-1]
        ends = np.stack([mean - np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts) - mean])
        look |= {"margin": ends, "size": int(sizes.max()), "interval": "least to greatest"}
        return cls(name, np.add.reduceat(x, starts) / sizes, mean, color, **look)


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
    rules: Sequence[Rule] = (),
    notes: Sequence[str] = (),
    finding: str = "",
) -> Chart:
    """Make a chart of lines and dots, with a legend where there are several marks."""
    named = [each for each in series if each.name and each.look != "ring"]  # the choice lies on another
    values = [(each.name, each.y[np.isfinite(each.y)]) for each in named]
    lines = [(each.name, each.y[np.isfinite(each.y) & np.logical_not(each.apart)]) for each in named]
    ways = [f"“{name}” {from_to(_write(y, ys[0]), _write(y, ys[-1]))}" for name, ys in lines if len(ys)]
    if (size := max((each.size for each in series), default=1)) > 1:
        note = f"Lines are means over up to {count(size)} neighbours, bands go from the least to the greatest."
        notes = [*notes, note]
    description = f"By {x.title}, {y.title}: {listing_of(ways, _DESCRIBED)}."
    every = np.concatenate([np.empty(0), *(each for _, each in values)])
    if marks.is_log(y.scale, every) and (low := [name for name, ys in values if (ys < _floor(every)).any()]):
        who = listing_of([f"“{name}”" for name in low], _DESCRIBED)
        finding = f"{finding} Not drawn where it is below {number(_floor(every), 1)}: {who}; the data have it.".lstrip()
    drawn = _together(series, y.scale)
    draw, table = partial(_draw_lines, drawn, x, y, rules), _line_table(title, named, x, y)
    names = [each for each in (*(each.name for each in drawn), *(each.name for each in rules)) if each]
    names += ["not compared"] * any(np.any(each.apart) for each in drawn)
    rows = -(-len(names) // marks.in_columns(names, _LINE)) if names else 0
    height = 1 + _ENTRY * max(0, rows - _ENTRIES)  # room for the legend
    return Chart(name, title, description, tuple(notes), table, draw, height, finding)


def _floor(values: Floats) -> float:
    """Return where a logarithmic axis begins at the least, so that the rest is not pressed together."""
    return float(values.max(initial=0.0)) * 10.0**-_DECADES


def _place(values: Floats, scale: marks.AxisScale, ys: Floats) -> Floats:
    """Return where values lie on an axis of this scale, on which all are drawn: on a logarithmic one their powers."""
    return np.log10(np.maximum(values, _floor(ys))) if marks.is_log(scale, ys) else values


def _together(series: Sequence[Series], scale: marks.AxisScale) -> list[Series]:
    """Draw lines that cannot be distinguished once, under the names of all."""
    ys = np.concatenate([np.zeros(0), *(each.y[np.isfinite(each.y)] for each in series)])
    apart = _SEEN / 2 * (ys.max(initial=-np.inf) - ys.min(initial=np.inf))
    near = {"rtol": _SEEN, "atol": 0.0} if marks.is_log(scale, ys) else {"rtol": 0.0, "atol": max(0.0, apart)}
    shown = list[list[Series]]()
    for each in series:
        for some in shown:
            lines = {some[0].look, each.look} <= {"line", "marked", "dashed"} and len(each.x) > 1
            if lines and np.array_equal(some[0].x, each.x) and np.allclose(some[0].y, each.y, equal_nan=True, **near):
                some.append(each)
                break
        else:
            shown.append([each])
    names = [f"{', '.join(each.name for each in some)}: same line" for some in shown]
    drawn = [replace(some[0], name=name) if len(some) > 1 else some[0] for some, name in zip(shown, names, strict=True)]
    under = [replace(each, name=_under(each, drawn[at + 1 :], scale, ys)) for at, each in enumerate(drawn)]
    return under if sum(a.name != b.name for a, b in zip(drawn, under, strict=True)) <= _UNDER else drawn


def _under(line: Series, later: Sequence[Series], scale: marks.AxisScale, ys: Floats) -> str:
    """Name a line, and the one that is drawn over most of it, where there is one."""
    placed, alike = partial(_place, scale=scale, ys=ys), [each for each in later if np.array_equal(each.x, line.x)]
    near = _COVERED * np.ptp(placed(ys))
    over = [each.name for each in alike if np.median(np.abs(placed(each.y) - placed(line.y))) < near]
    both = over and line.name and len(line.x) > 1 and {line.look, *(each.look for each in alike)} == {"line"}
    return f"{line.name} (under {over[0]})" if both else line.name


def _write(axis: AxisLook, value: float | None, margin: float = np.nan) -> str:
    if axis.scale == "percent":
        return percent(value)
    return give_or_take(value, margin) if value is not None and margin > 0 else above_dust(value)


def _line_table(title: str, series: Sequence[Series], x: AxisLook, y: AxisLook) -> Table:
    """Make the table of lines: a row for each place along x, a column for each line."""
    least = _ROUNDING * max((float(np.nan_to_num(np.abs(each.y)).max(initial=0.0)) for each in series), default=0.0)
    columns = []
    for each in series:
        margins = each.margin if each.margin is not None and each.margin.ndim == 1 else np.full(len(each.x), np.nan)
        values = zip(each.x.tolist(), each.y.tolist(), margins.tolist(), strict=True)
        columns.append({at: (0.0 if abs(value) < least else value, half) for at, value, half in values})
    places = sorted({at for column in columns for at in column})
    rows = [(x.write(at), *(_write(y, *column.get(at, (None,))) for column in columns)) for at in places]
    return thinned(f"{title}: {y.title}", (capitalized(x.title), *(each.name for each in series)), rows, places)


def _draw_lines(series: Sequence[Series], x: AxisLook, y: AxisLook, rules: Sequence[Rule], axes: Axes) -> None:
    entries, margins = list[tuple[Artist, str]](), dict[str, Artist]()
    xs, ys = (np.concatenate([getattr(each, axis) for each in series]) for axis in "xy")
    xs, ys = xs[np.isfinite(xs)], ys[np.isfinite(ys)]
    far = marks.is_log(y.scale, ys)
    for each in series:
        single, kept = len(each.x) == 1, np.where(each.apart, np.nan, each.y)
        if each.margin is not None:
            below, above = np.broadcast_to(each.margin, (2, len(each.y)))
            low, high = kept - below, kept + above
            low = np.maximum(low, 0.1 * np.abs(each.y)) if far else low  # there is no place for less than nothing
            drawn: Artist
            if single or each.look in {"dots", "hollow"}:
                drawn = axes.vlines(each.x, low, high, color=each.color, linewidth=1)
            else:
                drawn = axes.fill_between(each.x, low, high, color=each.color, alpha=0.16, linewidth=0)
            low, high, every = (_place(each, y.scale, ys) for each in (low, high, ys))
            if np.median(np.nan_to_num(high - low)) > _BAND * np.ptp(every):
                margins.setdefault(each.interval, drawn)
        if each.look == "bars":
            axes.fill_between(each.x, 0, each.y, step="mid", color=each.color, alpha=0.25, linewidth=0)
        style: dict[str, Any] = {"markersize": 5 if len(each.x) < 60 else 2.6, "marker": "o" if single else ""}
        if each.look == "spans":  # so that neighbours do not touch
            style["linewidth"] = min(7.0, _BARS / len(np.unique(ys)))
        (artist,) = axes.plot(each.x, kept, color=each.color, **{**style, **_LOOKS[each.look]})
        entries.append((artist, each.name))
        if np.any(out := each.apart):
            (cross,) = axes.plot(each.x[out], each.y[out], color=each.color, **{**_FREE, **style, "marker": "x"})
            margins.setdefault("not compared", cross)
    for level in rules:
        line = axes.axhline if level.axis == "y" else axes.axvline
        entries.append((line(level.at, color=level.color, linestyle=marks.DOTTED, linewidth=1), level.name))
    if any(each.names for each in series):
        axes.margins(0.14, 0.2)
    marks.set_scale(axes, "x", x.scale, xs, x.ticks)
    if far and ys.min() < (least := _floor(ys)):
        axes.set_ylim(bottom=least)
    marks.set_scale(axes, "y", y.scale, ys, y.ticks)
    entries += [(artist, name) for name, artist in margins.items()]
    named = [(artist, name) for artist, name in entries if name]
    marks.finish(axes, x.title, y.title, named if len(named) > 1 else ())
    if any(each.names for each in series):
        _name_points(axes, series)


def _name_points(axes: Axes, series: Sequence[Series]) -> None:
    """Write names beside points, without those for which no side is free of other names, points and lines."""
    to_axes, taken = axes.transData + axes.transAxes.inverted(), dict[object, tuple[float, float, float]]()
    spots = [to_axes.transform(np.column_stack([each.x, each.y])) for each in series]
    spots = [np.where(np.isfinite(each), each, np.nan) for each in spots]  # zero has no place on a logarithmic axis
    lines = [(at, np.reshape(of.apart, (-1, 1))) for at, of in zip(spots, series, strict=True) if of.look == "marked"]
    joined = [np.where(apart, np.nan, at) for at, apart in lines]
    along = [at[:-1] + np.linspace(0, 1, 30)[:, None, None] * np.diff(at, axis=0) for at in joined]
    x, y = np.concatenate([*spots, *(each.reshape(-1, 2) for each in along)]).T
    for name, spot, place in (each for of, at in zip(series, spots, strict=True) for each in _named_points(of, at)):
        long, ahead = _LETTER * (len(name) + 2), bool(spot[0] > 0.6)
        sides = {True: (-0.03 - long, -9, "right"), False: (0.03, 9, "left"), None: (-long / 2, 0, "center")}
        for up, side in (*product((0, 1, -1), (ahead, not ahead)), (1.7, None), (-1.7, None)):
            left, low = spot[0] + sides[side][0], spot[1] - 0.055 + 0.08 * up
            end, top = left + long, low + 0.11
            free = not ((x > left) & (x < end) & (y > low) & (y < top)).any()
            free &= left > 0 and low > 0 and end <= 1.12 and top <= 1.06
            apart = (abs(low - y1) > 0.11 or left > last or end < first for first, last, y1 in taken.values())
            if (name, place) not in taken and free and all(apart):
                taken[name, place] = left, end, low
                look: dict[str, Any] = {"color": marks.MUTED, "fontsize": matplotlib.rcParams["legend.fontsize"]}
                look |= {"ha": sides[side][2], "va": "center", "textcoords": "offset points"}
                axes.annotate(name, place, (sides[side][1], 8 * up), **look)


def _named_points(series: Series, spots: Floats) -> Iterator[tuple[str, Floats, tuple[float, float]]]:
    """Yield the names of points, and where these are on the axes and in the data."""
    for name, spot, x, y in zip(series.names, spots, series.x, series.y, strict=False):
        yield cut(name, _POINT_NAME), spot, (x, y)


@dataclass(frozen=True, eq=False)
class Rows:
    """Values with their intervals, a row for each name."""

    names: Sequence[str]
    value: Floats
    margin: Floats | None  # half of each interval, NaN where it is not known, or (2, n): how far down and up
    filled: Bools  # drawn full where it holds, else hollow
    legend: tuple[str, ...]  # what full and hollow dots are, and crosses
    unit: str
    reference: float | None = None  # the dotted line
    chosen: int | None = None  # the row that is marked
    theory: Floats | None = None  # a tick in each row
    tick: str = "theory"  # what it is
    listed: bool = False  # the values of the ticks are written at the right, below what they are, not those of the dots
    chance: Floats | None = None  # half of the grey band around the reference in each row
    scale: marks.AxisScale = "auto"
    interval: str = "95\N{NARROW NO-BREAK SPACE}% intervals"  # what the lines are
    crossed: Bools | None = None  # drawn as crosses where it holds


def row_plot(data: Rows, name: str, title: str, notes: Sequence[str] = ()) -> Chart:
    """Make a chart with a dot and an interval in each row."""
    columns = {"Name": [*data.names], data.unit: [*map(number, data.value)]}
    if data.margin is not None:
        below, above = np.broadcast_to(data.margin, (2, len(data.value)))
        ends = zip(data.value - below, data.value + above, strict=True)
        columns["Interval"] = [f"{number(a, 3)} to {number(b, 3)}" if np.isfinite(a) else NO_VALUE for a, b in ends]
    if data.theory is not None:
        columns[capitalized(data.tick)] = [*map(number, data.theory)]
    if data.chance is not None:
        columns["Equal chances"] = [f"{number(data.reference)} ± {number(each, 2)}" for each in data.chance]
    ways = [f"{name} {number(value, 3)}" for name, value in zip(data.names, data.value, strict=True)]
    marked = (data.margin, data.theory, data.chance, data.chosen)
    dots = (data.filled.any(), (~data.filled).any(), data.crossed is not None and data.crossed.any())
    entries = (*map(bool, dots), *(each is not None for each in marked))
    return Chart(
        name=name,
        title=title,
        description=f"{title}: {listing_of(ways, _DESCRIBED)}.",
        notes=(*([] if data.margin is None else [f"Lines are {data.interval}."]), *notes),
        table=Table(
            title,
            tuple(columns),
            tuple(zip(*columns.values(), strict=True)),
            places=tuple(range(len(data.value)))[::-1],
            along="y",
        ),
        draw=partial(_draw_rows, data),
        height=float(np.clip(0.33 + 0.09 * len(data.value), 0.5, 1.75)) + _ROW_ENTRY * sum(entries),
    )


def _draw_rows(data: Rows, axes: Axes) -> None:
    """Draw a row for each name, the first on top."""
    rows = np.arange(len(data.names), dtype=np.float64)[::-1]
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.yaxis.set_major_locator(FixedLocator(rows.tolist()))
    axes.yaxis.set_major_formatter(FixedFormatter([cut(visible(name), _ROW_NAME) for name in data.names]))
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    color, entries = marks.SERIES[0], list[tuple[Artist, str]]()
    crossed = np.zeros(len(rows), dtype=bool) if data.crossed is None else data.crossed
    for some, look, words in (
        (data.filled & ~crossed, {"markerfacecolor": color}, data.legend[0]),
        (~data.filled & ~crossed, {"markerfacecolor": marks.PAPER}, data.legend[1]),
        (crossed, {"marker": "x"}, data.legend[-1]),
    ):
        if some.any():
            entries += _dots(axes, data.value[some], rows[some], color, words, **look)
    if data.theory is not None:
        tick: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.8, "zorder": 5}
        entries += _dots(axes, data.theory, rows, marks.SERIES[1], data.tick, **tick)
    if data.chosen is not None:
        x, y, ring = data.value[[data.chosen]], rows[[data.chosen]], {**_LOOKS["ring"], "clip_on": False}
        entries += _dots(axes, x, y, marks.SERIES[1], "choice", **ring)
    if data.reference is not None:
        axes.axvline(data.reference, color=marks.INK, linestyle=marks.DOTTED, linewidth=1)
    shown = [each for each in (data.value, data.theory) if each is not None]
    marks.set_scale(axes, "x", data.scale, np.concatenate(shown))
    if data.margin is None and data.chance is None and axes.get_xscale() == "linear" and axes.get_xlim()[0] > 0:
        axes.set_xlim(0.0, 1.06 * float(np.concatenate(shown).max()))  # small differences are not drawn large
    if data.margin is not None:
        below, above = np.broadcast_to(np.nan_to_num(data.margin), (2, len(rows)))
        left, far = axes.get_xlim()[0], axes.get_xscale() != "linear"
        below = np.minimum(below, data.value - left) if far else below  # there is no place for nothing
        bars = axes.errorbar(data.value, rows, xerr=(below, above), linestyle="", color=color, capsize=3, linewidth=1.2)
        entries.append((bars.lines[2][0], "interval"))
        axes.set_xlim(left=left if far else None)
    if data.chance is not None and data.reference is not None:
        left, right = axes.get_xlim()
        low = data.reference - data.chance
        low = np.maximum(low, left) if axes.get_xscale() != "linear" else low
        grey: dict[str, Any] = {"color": marks.MUTED, "alpha": 0.28, "linewidth": 0}
        band = axes.barh(rows, data.reference + data.chance - low, 1.0, left=low, **grey)
        least = left if axes.get_xscale() != "linear" else min(left, float((data.reference - data.chance).min()))
        most = max(right, float((data.reference + data.chance).max()))
        more = 0.04 * (most - least) * (axes.get_xscale() == "linear")
        axes.set_xlim(least - more * (least > 0), most + more)
        entries.append((band[0], "equal chances"))
    listed = data.theory if data.listed and data.theory is not None else data.value
    size, apart = np.abs(listed), float(np.ptp(listed))
    decimals = 3 if apart < 0.05 else 2 if size.max() < 10 else 1
    if data.listed:
        axes.text(1.02, len(rows) - 0.3, data.tick, transform=axes.get_yaxis_transform(), color=marks.MUTED)
    for row, value in zip(rows, listed, strict=True):
        text = fixed(value, decimals) if size.min() >= 0.1 and size.max() < 100 else number(value, 3)
        axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center")
    marks.finish(axes, data.unit, "", entries if len(entries) > 1 else ())


def _dots(axes: Axes, x: Any, y: Any, color: str, words: str, **style: Any) -> list[tuple[Artist, str]]:
    """Draw marks that no line joins, and return their entry of the legend."""
    style = {"linestyle": "", "marker": "o", "markersize": 5.5, "zorder": 4, **style}
    (artist,) = axes.plot(x, y, color=color, **style)
    return [(artist, words)]
