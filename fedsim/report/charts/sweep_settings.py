"""Settings of a sweep side by side: bias against pace with the choice marked, a map over two axes, intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.findings.choice import SweepChoice
from fedsim.findings.finished_sweep import FinishedSweep
from fedsim.findings.formatting import count, cut, from_to, number
from fedsim.findings.metric_wording import PACE, tv, wording_of
from fedsim.report.charts import Absent, Chart, marks
from fedsim.report.charts.sweep_lines import LABEL
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import ellipse, interval

_SIDE = 24  # values of a parameter shown at most along a side
_MAP = LinearSegmentedColormap.from_list("fedsim", ["#eef4f9", "#9cc4e4", "#3b8cc2", "#0b4f86", "#08294a"])
# Not the page's ink and paper: cells keep their colours in the dark, and so must what is written on them.
_DARK, _LIGHT = "#101418", "#ffffff"


@dataclass(frozen=True, eq=False)
class Map:
    """Values of a metric in rows and columns."""

    metric: str
    across: str  # what the columns are
    up: str  # what the rows are
    columns: tuple[str, ...]
    rows: tuple[str, ...]  # from below
    mean: Floats  # (rows, columns); NaN where there is no value
    notes: tuple[str, ...] = ()
    logarithmic: bool = False


def map_data(sweep: FinishedSweep, metric: str) -> Map | None:
    """Compute the map of a sweep; None where settings differ in fewer than two ways, or the metric has no value."""
    along, found = sweep.axis, sweep.estimates(metric)
    if along is None or along.size < 2 or not np.isfinite(found.mean).any():
        return None
    across, *others = sorted((each for each in sweep.axes if each.size > 1), key=lambda each: each is not along)
    if not others:
        return None
    up, *held = others
    (columns, column), (rows, row) = (np.unique(axis.x, return_inverse=True) for axis in (across, up))
    mean = np.full((len(rows), len(columns)), np.nan)
    kept = np.all([axis.x == axis.x[0] for axis in held], axis=0) if held else np.ones(len(found.mean), dtype=bool)
    mean[row[kept], column[kept]] = found.mean[kept]
    shown = mean[:_SIDE, :_SIDE]
    notes = [f"Held: {', '.join(axis.named(float(axis.x[0])) for axis in held)}."] if held else []
    notes += [f"{count(left, 'cell')} left out."] if (left := mean.size - shown.size) else []
    names = [tuple(axis.at(x) for x in each[:_SIDE].tolist()) for axis, each in ((across, columns), (up, rows))]
    return Map(metric, across.label, up.label, names[0], names[1], shown, tuple(notes))


def map_chart(data: Map, name: str, title: str) -> Chart:
    """Make a chart of a map."""
    cells = zip(data.rows, data.mean.tolist(), strict=True)
    rows = [(row, *(number(value) for value in values)) for row, values in cells]
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    shown = thinned(f"{data.metric}, means", (f"{data.up} \\ {data.across}", *data.columns), rows[::-1])
    return Chart(
        name=name,
        title=title,
        description=f"{data.metric} over {data.across} and {data.up}: {from_to(number(low), number(high))}.",
        notes=("Means over the seeds; darker is more. Empty cells have no value.", *data.notes),
        table=replace(shown, words=1),
        draw=partial(_draw_map, data),
        height=float(np.clip(0.45 + 0.09 * len(data.rows), 0.7, 1.8)),
    )


def _draw_map(data: Map, axes: Axes) -> None:
    """Draw a rectangle for each cell, with its value where there is room."""
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    scale: Normalize = Normalize(low, high if high > low else low + 1)
    if data.logarithmic and high > 0:
        scale = LogNorm(max(low, 1e-4 * high), high, clip=True)
    digits = 3 if len(data.columns) <= 6 else 2
    for row, column in zip(*np.nonzero(np.isfinite(data.mean)), strict=True):
        value = float(data.mean[row, column])
        shade = float(scale(value))
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=_MAP(shade), edgecolor="none"))
        if len(data.columns) <= 12:
            ink, size = _LIGHT if shade > 0.5 else _DARK, 8.2 if len(data.columns) <= 7 else 6.6
            text = f"{value:.0e}".replace("e-0", "e\N{MINUS SIGN}") if abs(value) < 1e-3 else number(value, digits)
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=size)
    axes.set_xlim(0, len(data.columns))
    axes.set_ylim(0, len(data.rows))
    axes.grid(visible=False)
    for ticks, names, longest in ((axes.xaxis, data.columns, LABEL), (axes.yaxis, data.rows, 2 * LABEL)):
        marked = range(0, len(names), -(-len(names) // _SIDE))
        ticks.set_major_locator(FixedLocator([index + 0.5 for index in marked]))
        ticks.set_major_formatter(FixedFormatter([marks.shortened(names[index], longest) for index in marked]))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    marks.finish(axes, marks.shortened(data.across, 44), marks.shortened(data.up))


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Values with their intervals, a row for each name."""

    names: tuple[str, ...]
    value: Floats
    half: Floats  # half of the 95 % interval, NaN where it is not known
    told: Bools  # drawn full where it holds, else hollow
    legend: tuple[str, str]  # what full and hollow dots are
    unit: str
    reference: float | None  # the dotted line


def interval_chart(data: IntervalRows, name: str, title: str, notes: Sequence[str] = ()) -> Chart:
    """Make a chart with a dot and an interval in each row."""
    pairs = zip(data.names, data.value.tolist(), data.half.tolist(), strict=True)
    rows = tuple((name, number(value), number(half, 2)) for name, value, half in pairs)
    return Chart(
        name=name,
        title=title,
        description=f"{data.unit}: {'; '.join(f'{name} {value} ± {half}' for name, value, half in rows)}.",
        notes=("Lines are 95\N{NARROW NO-BREAK SPACE}% intervals.", *notes),
        table=Table(data.unit, ("", data.unit, "± 95 %"), rows),
        draw=partial(_draw_intervals, data),
        height=float(np.clip(0.3 + 0.08 * len(rows), 0.5, 1.8)),
    )


def _draw_intervals(data: IntervalRows, axes: Axes) -> None:
    rows = marks.named_rows(axes, [marks.shortened(each, 30) for each in data.names])
    style: dict[str, Any] = {"linestyle": "", "color": marks.SERIES[0], "capsize": 3, "linewidth": 1.2}
    axes.errorbar(data.value, rows, xerr=np.nan_to_num(data.half), **style)
    entries = list[tuple[Artist, str]]()
    for told, face, words in zip((data.told, ~data.told), (marks.SERIES[0], marks.PAPER), data.legend, strict=True):
        dots = marks.dots(axes, data.value[told], rows[told], marks.SERIES[0], 6, markerfacecolor=face)
        entries += [(dots, words)] if told.any() else []
    if data.reference is not None:
        marks.rule(axes, x=data.reference)
    marks.linear(axes, "x")
    marks.finish(axes, data.unit, "", entries)


TRADE_OFF = "trade-off"
_LABEL = 30  # characters of the name of a setting that fit next to its mark
_DRAWN = 300  # marks of each kind drawn at most, evenly spaced
_OUTLINED = 40  # regions drawn at most: those of the settings that nothing beats come first


@dataclass(frozen=True, eq=False)
class _TradeOff:
    """Settings with bias and pace: arrays over them, means over the seeds."""

    names: tuple[str, ...]
    bias: Floats  # total variation distance in per cent
    bias_half: Floats  # half of the 95 % interval
    pace: Floats  # rounds per simulated day
    pace_half: Floats
    outlines: tuple[Floats, ...]  # 95 % confidence regions, (points, 2) of pace and bias
    standings: tuple[str, ...]  # how each stands, in a word
    front: Ints  # the settings that nothing beats, the fastest first
    dominated: Bools  # those that another setting beats
    chosen: int | None  # the one to choose; None where there is none


def trade_off_data(found: SweepChoice) -> _TradeOff | None:
    """Compute the chart's data; None where no setting has both."""
    if found.front is None:
        return None
    (bias, bias_half), (pace, pace_half) = interval(50 * found.bias), interval(found.pace)
    known = np.flatnonzero(np.isfinite(bias) & np.isfinite(pace))
    place = {int(row): index for index, row in enumerate(known)}
    first = [*found.front.rows.tolist(), *known[~found.front.dominated[known]].tolist(), *known.tolist()]
    outlines = (ellipse(found.pace[row], 50 * found.bias[row]) for row in list(dict.fromkeys(first))[:_OUTLINED])
    return _TradeOff(
        names=tuple(found.names[row] for row in known),
        bias=bias[known],
        bias_half=bias_half[known],
        pace=pace[known],
        pace_half=pace_half[known],
        outlines=tuple(each for each in outlines if each is not None),
        standings=tuple(found.standings[row] for row in known),
        front=np.array([place[int(row)] for row in found.front.rows], dtype=np.int64),
        dominated=found.front.dominated[known],
        chosen=None if found.chosen is None else place.get(found.chosen),
    )


def trade_off_chart(found: SweepChoice) -> Chart | Absent:
    """Make the trade-off plot."""
    data = trade_off_data(found)
    if data is None:
        return Absent(TRADE_OFF, "Bias against pace", f"No run has both {found.sweep.bias_metric} and {PACE}.")
    notes = ["Left is slower, down is more even: the best corner is below on the right."]
    if data.outlines:
        notes.append("Ellipses are 95\N{NARROW NO-BREAK SPACE}% confidence regions of the means over the seeds.")
    if data.dominated.any():
        some = " Of so many, every few are drawn." if data.dominated.sum() > _DRAWN else ""
        notes.append(f"Grey settings are worse in one and no better in the other than some setting on the line.{some}")
    best = [f"{data.names[k]} ({tv(data.bias[k] / 50)} at {number(data.pace[k])} rounds a day)" for k in data.front[:8]]
    figures = zip(data.pace, data.pace_half, data.bias, data.bias_half, strict=True)
    rows = [(*words, *map(number, row)) for *words, row in zip(data.names, data.standings, figures, strict=True)]
    header = ("Setting", "Standing", "Rounds a day", "± 95 %", "TV from uniform, %", "± 95 %")
    settings = count(len(data.names), "setting")
    return Chart(
        name=TRADE_OFF,
        title=f"Bias against pace: {count(len(data.front))} of {settings} {'is' if len(data.front) == 1 else 'are'} "
        "beaten by no other",
        description=f"Distance from uniform against rounds per day. Nothing beats {'; '.join(best)}.",
        notes=tuple(notes),
        table=thinned("Bias and pace", header, rows),
        draw=partial(_draw_trade_off, data),
    )


def _draw_trade_off(data: _TradeOff, axes: Axes) -> None:
    """Draw every setting, with the confidence regions of the best; the front joined, what is beaten in grey."""
    if data.outlines:
        axes.add_collection(PolyCollection(data.outlines, facecolor=marks.SERIES[0], alpha=0.18))
    on = data.front
    (line,) = axes.plot(data.pace[on], data.bias[on], color=marks.SERIES[0], marker="o", markersize=5.5, linewidth=1.2)
    entries: list[tuple[Artist, str]] = [(line, "beaten by no other")]
    undecided = ~data.dominated & ~np.isin(np.arange(len(data.names)), on)
    groups = (
        (undecided, marks.SERIES[0], "none", "not told apart"),
        (data.dominated, marks.MUTED, marks.MUTED, "beaten"),
    )
    for those, edge, face, words in groups:
        if those.any():
            some = np.flatnonzero(those)[:: -(-int(those.sum()) // _DRAWN)]
            entries.append((marks.dots(axes, data.pace[some], data.bias[some], edge, 5, markerfacecolor=face), words))
    if (best := data.chosen) is not None:
        ringed: dict[str, Any] = {"markeredgewidth": 2, "markerfacecolor": "none"}
        entries.append((marks.dots(axes, data.pace[best], data.bias[best], marks.SERIES[1], 12, **ringed), "choice"))
    axes.margins(0.14)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    for text, x, y in _labels(data, axes):
        right = x > axes.get_xlim()[0] + 0.6 * np.ptp(axes.get_xlim())
        offset = (-7 if right else 7, -13 if y == data.bias[data.front[-1]] else 6)
        near: dict[str, Any] = {"ha": "right" if right else "left", "color": marks.MUTED, "fontsize": 8.2}
        axes.annotate(text, (x, y), offset, textcoords="offset points", **near)
    marks.linear(axes, "x")
    marks.linear(axes, "y")
    marks.finish(axes, wording_of(PACE).short, "distance from uniform (TV, %)", entries if len(entries) > 1 else ())


def _labels(data: _TradeOff, axes: Axes) -> list[tuple[str, float, float]]:
    """Name the settings, the chosen and the front first, and leave out names that would lie on others."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    first = [] if data.chosen is None else [data.chosen]
    rows = dict.fromkeys([*first, *data.front[[0, -1]].tolist(), *data.front.tolist(), *range(len(data.names))])
    found: list[tuple[str, float, float]] = []
    for row in list(rows)[:_OUTLINED]:
        text, x, y = cut(data.names[row], _LABEL), float(data.pace[row]), float(data.bias[row])
        if all(
            abs(x - other_x) > 0.011 * (len(text) + len(other) + 4) * wide or abs(y - other_y) > 0.075 * tall
            for other, other_x, other_y in found
        ):
            found.append((text, x, y))
    return found
