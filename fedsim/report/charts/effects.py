"""By how much each swept parameter moves a figure: a bar for each, with its interval, the longest on top."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.report.charts.chart import Chart
from fedsim.report.charts.marks import INK, SERIES, finish, linear, named_rows, rule, shortened
from fedsim.report.finished_sweep import FinishedSweep
from fedsim.report.formatting import count
from fedsim.report.sweep_figures import MetricWording, difference
from fedsim.report.tables import Table
from fedsim.sweeps.decision import differs, effect

NAME = "effects"
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
        name=NAME,
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
