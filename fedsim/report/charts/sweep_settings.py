"""Settings of a sweep beside each other: what evenness costs, a map over two parameters, the effect of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.findings.finished_sweep import Axis, FinishedSweep
from fedsim.findings.formatting import count, cut, fixed, number
from fedsim.report.charts import Absent, Chart
from fedsim.report.charts.marks import INK, MUTED, SERIES, dots, finish, linear, named_rows, rule, shortened
from fedsim.report.charts.sweep_lines import LABEL
from fedsim.report.sweep_choice import SweepChoice
from fedsim.report.sweep_figures import BIAS_WORDING, L1, PACE, PACE_SHORT, MetricWording, difference, misplaced
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import differs, effect, ellipse, interval

_SIDE = 24  # values of a parameter shown at most along a side
_WRITTEN = 12  # up to so many columns, each cell has its value written into it
_MAP = LinearSegmentedColormap.from_list("fedsim", ["#eef4f9", "#9cc4e4", "#3b8cc2", "#0b4f86", "#08294a"])
# Not the page's ink and paper: cells keep their colours in the dark, and so must what is written on them.
_DARK, _LIGHT = "#101418", "#ffffff"


@dataclass(frozen=True, eq=False)
class Map:
    """Means over the seeds; rows go with the second parameter, columns with the first."""

    across: Axis
    up: Axis

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    mean: Floats  # (rows, columns); NaN where there is no value
    fixed: tuple[str, ...]  # the other axes at the values at which they are held, as in ``cohort = 5``
    omitted: int  # cells left out since a side is too long


def map_data(sweep: FinishedSweep, metric: str) -> Map | None:
    """Compute the map; None where settings differ in fewer than two ways, or the metric has no value."""
    along, found = sweep.axis, sweep.estimates(metric)
    if along is None or along.size < 2 or not np.isfinite(found.mean).any():
        return None
    across, *others = sorted(
        (axis for axis in sweep.axes if axis.size > 1), key=lambda axis: axis.parameters != along.parameters
    )
    if not others:
        return None
    up, *held = others
    (columns, column), (rows, row) = (np.unique(axis.x, return_inverse=True) for axis in (across, up))
    mean = np.full((len(rows), len(columns)), np.nan)
    kept = np.all([axis.x == axis.x[0] for axis in held], axis=0) if held else np.ones(len(found.mean), dtype=bool)
    mean[row[kept], column[kept]] = found.mean[kept]
    shown = mean[:_SIDE, :_SIDE]
    return Map(
        across,
        up,
        tuple(across.at(x) for x in columns[:_SIDE].tolist()),
        tuple(up.at(x) for x in rows[:_SIDE].tolist()),
        shown,
        tuple(axis.named(float(axis.x[0])) for axis in held),
        int(mean.size - shown.size),
    )


def map_chart(sweep: FinishedSweep, metric: str, name: str, title: str) -> Chart | None:
    """Make the map of a metric; None where the sweep has no two sides."""
    data = map_data(sweep, metric)
    if data is None:
        return None
    notes = ["Means over the seeds; darker is more. Empty cells were not run or have no value."]
    if data.fixed:
        notes.append(f"Held: {', '.join(data.fixed)}.")
    if data.omitted:
        notes.append(f"{count(data.omitted, 'cell')} left out; the table of points has more.")
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    rows = [
        (row, *(number(value) for value in values)) for row, values in zip(data.rows, data.mean.tolist(), strict=True)
    ]
    header = (f"{data.up.name} \\ {data.across.name}", *data.columns)
    return Chart(
        name=name,
        title=title,
        description=f"{metric} over {data.across.name} and {data.up.name}: from {number(low)} to {number(high)}.",
        notes=tuple(notes),
        table=replace(thinned(f"{metric}, means", header, rows), words=1),
        draw=partial(_draw_map, data),
        height=float(np.clip(0.45 + 0.09 * len(data.rows), 0.7, 1.5)),
    )


def _draw_map(data: Map, axes: Axes) -> None:
    """Draw a rectangle for each cell, with its value where there is room."""
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    scale = Normalize(low, high if high > low else low + 1)
    for row, values in enumerate(data.mean.tolist()):
        for column, value in enumerate(values):
            if not np.isfinite(value):
                continue
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=_MAP(scale(value)), edgecolor="none"))
            if len(data.columns) <= _WRITTEN:
                ink = _LIGHT if scale(value) > 0.5 else _DARK
                text = number(value, 3 if len(data.columns) <= 8 else 2)
                size = 8.2 if len(data.columns) <= 7 else 6.6
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=size)
    axes.set_xlim(0, len(data.columns))
    axes.set_ylim(0, len(data.rows))
    axes.grid(visible=False)
    for ticks, names in ((axes.xaxis, data.columns), (axes.yaxis, data.rows)):
        marked = range(0, len(names), -(-len(names) // 12))
        ticks.set_major_locator(FixedLocator([index + 0.5 for index in marked]))
        ticks.set_major_formatter(FixedFormatter([shortened(names[index], LABEL) for index in marked]))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    finish(axes, shortened(data.across.label, 44), shortened(data.up.label))


EFFECTS = "effects"
_MOST = 40  # values of an axis that are tried at most


@dataclass(frozen=True)
class _Effect:
    """How a figure differs between two values of an axis, all else the same."""

    name: str  # the axis and the two values
    pairs: int  # how many pairs of settings were averaged
    mean: float  # of the difference
    half: float  # of its 95 % interval, NaN where it is not known


def effect_data(sweep: FinishedSweep, values: Floats) -> tuple[_Effect, ...]:
    """Compute the effect of each axis on a metric, (settings, seeds); the largest first."""
    known = np.flatnonzero(np.isfinite(values).any(axis=1))
    axes = [axis for axis in sweep.axes if axis.size > 1]
    found = []
    for axis in axes:
        pairs, start, end = _widest(axis.x, [other.x for other in axes if other is not axis], known)
        mean, half = effect(values, pairs)
        if np.isfinite(mean):
            name = f"{axis.at(start)} → {axis.at(end)}"
            found.append(_Effect(name if len(axis.varying) > 1 else f"{axis.name}: {name}", len(pairs), mean, half))
    return tuple(sorted(found, key=lambda each: -abs(each.mean)))


def _widest(x: Floats, others: Sequence[Floats], rows: Ints) -> tuple[list[tuple[int, int]], float, float]:
    """Choose two values of an axis: those that most settings have in pairs and, of these, the two farthest apart.

    Returns the pairs of rows that differ in nothing else, from the one value to the other; and the two values.
    """
    lines: dict[tuple[float, ...], dict[float, int]] = {}
    for row in rows.tolist():
        lines.setdefault(tuple(float(other[row]) for other in others), {})[float(x[row])] = row
    values = np.unique(x[rows])
    kept = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST)).round().astype(int))]
    best: tuple[list[tuple[int, int]], float, float] = [], 0.0, 0.0
    for start, end in combinations(kept.tolist(), 2):
        pairs = [(line[start], line[end]) for line in lines.values() if start in line and end in line]
        if (len(pairs), end - start) > (len(best[0]), best[2] - best[1]):
            best = pairs, start, end
    return best


def effects_chart(sweep: FinishedSweep, wording: MetricWording, values: Floats) -> Chart | None:
    """Make the chart; None where fewer than two parameters have an effect to compare."""
    data = effect_data(sweep, values)
    if len(data) < 2:
        return None
    first, clear = data[0], differs(np.array([each.mean for each in data]), np.array([each.half for each in data]))
    title = f"{first.name.partition(':')[0]} moves {wording.words} most"
    if not clear.any():
        title = f"Nothing that is swept moves {wording.words} beyond chance"
    ways = [f"{each.name}: {difference(wording, each.mean, each.half)}" for each in data]
    rows = tuple((each.name, difference(wording, each.mean, each.half), count(each.pairs)) for each in data)
    return Chart(
        name=EFFECTS,
        title=title,
        description=f"How {wording.words} changes: {'; '.join(ways)}.",
        notes=(
            "From one value to the other, all else the same: the mean over the pairs of settings that have both. "
            "Lines are 95\N{NARROW NO-BREAK SPACE}% intervals over the seeds.",
        ),
        table=Table("Paired effects", ("From → to", "Change", "Pairs of settings"), rows),
        draw=partial(_draw_effects, data, wording),
        height=float(np.clip(0.3 + 0.1 * len(data), 0.5, 1.2)),
    )


def _draw_effects(data: tuple[_Effect, ...], wording: MetricWording, axes: Axes) -> None:
    """Draw a bar for each effect, with its interval across the end."""
    rows = named_rows(axes, [shortened(each.name, 26) for each in data])
    mean, half = (np.array([getattr(each, name) for each in data]) * wording.scale for name in ("mean", "half"))
    axes.barh(rows, mean, height=0.5, color=SERIES[0], alpha=0.75)
    known = np.isfinite(half)
    axes.errorbar(mean[known], rows[known], xerr=half[known], linestyle="", color=INK, capsize=3, linewidth=1.2)
    rule(axes, x=0)
    linear(axes, "x")
    finish(axes, f"change of {wording.short}", "")


TRADE_OFF, _TRADE_OFF_TITLE = "trade-off", "What evenness costs"

_LABEL = 30  # characters of the name of a setting that fit next to its mark


@dataclass(frozen=True, eq=False)
class _TradeOff:
    """Settings with bias and pace: arrays over them, means over the seeds."""

    names: tuple[str, ...]
    bias: Floats  # misplaced turns in per cent
    bias_half: Floats  # half of the 95 % interval
    pace: Floats  # rounds per simulated day
    pace_half: Floats
    outlines: tuple[Floats | None, ...]  # 95 % confidence regions, (points, 2) of pace and bias; None with few seeds
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
    if not len(known):
        return None
    place = {int(row): index for index, row in enumerate(known)}
    return _TradeOff(
        names=tuple(found.names[row] for row in known),
        bias=bias[known],
        bias_half=bias_half[known],
        pace=pace[known],
        pace_half=pace_half[known],
        outlines=tuple(ellipse(found.pace[row], 50 * found.bias[row]) for row in known),
        standings=tuple(found.standing(int(row)) for row in known),
        front=np.array([place[int(row)] for row in found.front.rows], dtype=np.int64),
        dominated=found.front.dominated[known],
        chosen=None if found.chosen is None else place.get(found.chosen),
    )


def paces_differ(found: SweepChoice) -> bool:
    """Tell whether settings differ in pace by more than rounding, so that bias can be drawn against it."""
    pace = interval(found.pace)[0]
    pace = pace[np.isfinite(pace)]
    return len(pace) > 1 and bool(np.ptp(pace) > 1e-6 * np.abs(pace).max())


def trade_off_chart(found: SweepChoice) -> Chart | Absent:
    """Make the trade-off plot."""
    data = trade_off_data(found)
    if data is None:
        return Absent(TRADE_OFF, _TRADE_OFF_TITLE, f"No run has both {L1} and {PACE}.")
    fast, even = int(data.front[0]), int(data.front[-1])
    lost = 1 - data.pace[even] / data.pace[fast]
    slower = f"The most even setting is {fixed(100 * lost, 1)} % slower than the fastest"
    sure = ""
    if any(outline is not None for outline in data.outlines):
        sure = "Ellipses are 95\N{NARROW NO-BREAK SPACE}% confidence regions of the means over the seeds. "
    elif np.isfinite(data.bias_half).any():
        sure = "Bars are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the means. "
    notes = [f"Left is slower, down is more even: the best corner is below on the right. {sure}".rstrip()]
    if data.dominated.any():
        notes.append("Grey settings are worse in one and no better in the other than some setting on the line.")
    best = [
        f"{data.names[row]} ({misplaced(data.bias[row] / 50)} at {number(data.pace[row])} rounds a day)"
        for row in data.front[:8].tolist()
    ]
    settings = f"for {count(len(data.names), 'setting')}"
    figures = zip(data.pace, data.pace_half, data.bias, data.bias_half, data.bias / 50, strict=True)
    rows = [(*words, *map(number, row)) for *words, row in zip(data.names, data.standings, figures, strict=True)]
    header = ("Setting", "Standing", "Rounds a day", "± 95 %", "Misplaced, %", "± 95 %", "L1 from uniform")
    return Chart(
        name=TRADE_OFF,
        title=slower if fast != even and lost > 0 else _TRADE_OFF_TITLE,
        description=f"Misplaced turns against rounds per day {settings}. Nothing beats {'; '.join(best)}.",
        notes=tuple(notes),
        table=thinned("Bias and pace", header, rows),
        draw=partial(_draw_trade_off, data),
    )


def _draw_trade_off(data: _TradeOff, axes: Axes) -> None:
    """Draw every setting with its confidence region; the front joined, what is beaten in grey."""
    color = [MUTED if data.dominated[row] and row != data.chosen else SERIES[0] for row in range(len(data.names))]
    for row, outline in enumerate(data.outlines):
        if outline is not None:
            axes.fill(outline[:, 0], outline[:, 1], facecolor=color[row], edgecolor=color[row], alpha=0.22, linewidth=1)
        elif np.isfinite(data.bias_half[row]):
            wide, tall = np.nan_to_num(data.pace_half[row]), data.bias_half[row]
            style: dict[str, Any] = {"color": color[row], "linewidth": 1, "capsize": 2}
            axes.errorbar(data.pace[row], data.bias[row], xerr=wide, yerr=tall, **style)
    on = data.front
    (line,) = axes.plot(data.pace[on], data.bias[on], color=SERIES[0], marker="o", markersize=5.5, linewidth=1.2)
    entries: list[tuple[Artist, str]] = [(line, "beaten by no other")]
    undecided = ~data.dominated & ~np.isin(np.arange(len(data.names)), on)
    groups = ((undecided, SERIES[0], "none", "too close to tell"), (data.dominated, MUTED, MUTED, "beaten"))
    for those, edge, face, words in groups:
        if those.any():
            entries.append((dots(axes, data.pace[those], data.bias[those], edge, 5, markerfacecolor=face), words))
    if (best := data.chosen) is not None:
        style = {"markeredgewidth": 2, "markerfacecolor": "none"}
        entries.append((dots(axes, data.pace[best], data.bias[best], SERIES[1], 12, **style), "best"))
    axes.margins(0.14)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    for text, x, y in _labels(data, axes):
        right = x > axes.get_xlim()[0] + 0.6 * np.ptp(axes.get_xlim())
        offset = (-7 if right else 7, -13 if y == data.bias[data.front[-1]] else 6)
        side = "right" if right else "left"
        axes.annotate(text, (x, y), offset, textcoords="offset points", ha=side, color=MUTED, fontsize=8.2)
    linear(axes, "x")
    linear(axes, "y")
    finish(axes, PACE_SHORT, BIAS_WORDING.short, entries if len(entries) > 1 else ())


def _labels(data: _TradeOff, axes: Axes) -> list[tuple[str, float, float]]:
    """Name the settings, the chosen and the front first, and leave out names that would lie on others."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    first = [] if data.chosen is None else [data.chosen]
    ends = [int(data.front[0]), int(data.front[-1])]
    rows = dict.fromkeys([*first, *ends, *data.front.tolist(), *range(len(data.names))])
    found: list[tuple[str, float, float]] = []
    for row in rows:
        text, x, y = cut(data.names[row], _LABEL), float(data.pace[row]), float(data.bias[row])
        if all(
            abs(x - other_x) > 0.011 * (len(text) + len(other) + 4) * wide or abs(y - other_y) > 0.075 * tall
            for other, other_x, other_y in found
        ):
            found.append((text, x, y))
    return found
