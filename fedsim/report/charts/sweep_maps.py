"""A metric over two parameters of a sweep, as a map of its means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator

from fedsim.common.arrays import Floats
from fedsim.report.charts.chart import Chart
from fedsim.report.charts.marks import finish, shortened
from fedsim.report.charts.sweep_lines import LABEL
from fedsim.report.finished_sweep import Axis, FinishedSweep
from fedsim.report.formatting import count, number
from fedsim.report.tables import thinned

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


def _tick(names: Sequence[str], x: float, _: object) -> str:
    return shortened(names[int(x)], LABEL)


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
        step = -(-len(names) // 12)
        ticks.set_major_locator(FixedLocator([index + 0.5 for index in range(0, len(names), step)]))
        ticks.set_major_formatter(partial(_tick, names))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    finish(axes, shortened(data.across.label, 44), shortened(data.up.label))
