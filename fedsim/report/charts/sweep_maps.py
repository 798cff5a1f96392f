"""A metric over two parameters of a sweep, as a map of its means."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter

from fedsim.common.arrays import Floats
from fedsim.report.charts.chart import Chart
from fedsim.report.charts.marks import label_axes, shortened
from fedsim.report.charts.sweep_lines import LABEL, axis_of
from fedsim.report.finished_sweep import FinishedSweep, estimates, label, numbers_of, short, values_of
from fedsim.report.formatting import count, number
from fedsim.report.tables import thinned

SIDE = 24
"""Values of a parameter shown at most along a side."""

WRITTEN = 12
"""Up to so many columns, each cell has its value written into it."""

_MAP = LinearSegmentedColormap.from_list("fedsim", ["#eef4f9", "#9cc4e4", "#3b8cc2", "#0b4f86", "#08294a"])
# Not the page's ink and paper: cells keep their colours in the dark, and so must what is written on them.
_DARK, _LIGHT = "#101418", "#ffffff"


@dataclass(frozen=True)
class Map:
    """Means over the seeds; rows go with the second parameter, columns with the first.

    Parameters
    ----------
    across, up
        The two parameters.
    columns, rows
        Their values.
    mean
        (rows, columns); NaN where there is no value.
    fixed
        The other parameters and the values at which they are held.
    omitted
        Cells left out since a side is too long.
    """

    across: str
    up: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    mean: Floats
    fixed: tuple[tuple[str, str], ...]
    omitted: int


def map_data(sweep: FinishedSweep, metric: str) -> Map | None:
    """Compute the map; None where fewer than two parameters take several values, or the metric has none."""
    several = [name for name in sweep.parameters if len(set(values_of(sweep, name))) > 1]
    found = estimates(sweep, metric)
    across = axis_of(sweep)
    if len(several) < 2 or across not in several or not np.isfinite(found.mean).any():
        return None
    up = next(name for name in several if name != across)
    values = {name: values_of(sweep, name) for name in sweep.parameters}
    fixed = tuple((name, values[name][0]) for name in sweep.parameters if name not in {across, up})
    columns, rows = _sorted(sweep, across), _sorted(sweep, up)
    mean = np.full((len(rows), len(columns)), np.nan)
    for index, value in enumerate(found.mean.tolist()):
        if all(values[name][index] == held for name, held in fixed):
            mean[rows.index(values[up][index]), columns.index(values[across][index])] = value
    kept = mean[:SIDE, :SIDE]
    return Map(across, up, tuple(columns[:SIDE]), tuple(rows[:SIDE]), kept, fixed, int(mean.size - kept.size))


def _sorted(sweep: FinishedSweep, parameter: str) -> list[str]:
    values, numbers = values_of(sweep, parameter), numbers_of(sweep, parameter)
    order: Floats | range = range(len(values)) if numbers is None else numbers
    return [value for value, _ in sorted(dict(zip(values, order, strict=True)).items(), key=lambda pair: pair[1])]


def map_chart(sweep: FinishedSweep, metric: str, name: str, title: str) -> Chart | None:
    """Make the map of a metric; None where the sweep has no two sides."""
    data = map_data(sweep, metric)
    if data is None:
        return None
    notes = ["Means over the seeds; darker is more. Empty cells were not run or have no value."]
    if data.fixed:
        notes.append(f"Held: {', '.join(f'{short(name)} = {value}' for name, value in data.fixed)}.")
    if data.omitted:
        notes.append(f"{count(data.omitted, 'cell')} left out; the table of points has more.")
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    rows = [
        (row, *(number(value) for value in values)) for row, values in zip(data.rows, data.mean.tolist(), strict=True)
    ]
    header = (f"{short(data.up)} \\ {short(data.across)}", *data.columns)
    return Chart(
        name=name,
        title=title,
        description=f"{metric} over {data.across} and {data.up}: from {number(low)} to {number(high)}.",
        notes=tuple(notes),
        table=replace(thinned(f"{metric}, means", header, rows), words=1),
        draw=partial(draw_map, data),
        height=float(np.clip(0.45 + 0.09 * len(data.rows), 0.7, 1.5)),
    )


def draw_map(data: Map, axes: Axes) -> None:
    """Draw a rectangle for each cell, with its value where there is room."""
    low, high = float(np.nanmin(data.mean)), float(np.nanmax(data.mean))
    scale = Normalize(low, high if high > low else low + 1)
    for row, values in enumerate(data.mean.tolist()):
        for column, value in enumerate(values):
            if not np.isfinite(value):
                continue
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=_MAP(scale(value)), edgecolor="none"))
            if len(data.columns) <= WRITTEN:
                ink = _LIGHT if scale(value) > 0.5 else _DARK
                digits = 3 if len(data.columns) <= 8 else 2
                text = number(value, digits)
                size = 8.2 if len(data.columns) <= 7 else 6.6
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=size)
    axes.set_xlim(0, len(data.columns))
    axes.set_ylim(0, len(data.rows))
    axes.grid(visible=False)
    for ticks, names in ((axes.xaxis, data.columns), (axes.yaxis, data.rows)):
        step = -(-len(names) // 12)
        ticks.set_major_locator(FixedLocator([index + 0.5 for index in range(0, len(names), step)]))
        ticks.set_major_formatter(FuncFormatter(lambda x, _, names=names: shortened(names[int(x)], LABEL)))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    label_axes(axes, shortened(label(data.across), 44), shortened(f"{label(data.up)}"))
