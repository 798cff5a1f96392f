"""How each optimizer learned: its loss, and where the optimum is known its distance from that, over rounds or time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.common.formatting import count, listing, number
from fedsim.pages.charts import Chart, marks, plot
from fedsim.pages.methods import INITIAL_ROUND, optimizers, references
from fedsim.run.run import Run

_FURTHER = 1e4  # values so many times above the first ones are not drawn
_LEAST = 1e-6  # of the largest value: smaller ones lie under the axis
_STEADY = 0.03  # rounds go with time where none closes further from its place than this part of the run


@dataclass(frozen=True)
class Curve:
    """One optimizer's values over the number of rounds done, 0 being the initial model, or over simulated time."""

    optimizer: str
    reference: bool  # whether it was trained under uniform participation, to compare with
    color: int  # which colour of the palette: a reference shares that of its optimizer
    points: marks.Binned  # its values that can be drawn
    first_lost: float | None  # x of the first that cannot: it is not finite, or far above the first ones; None without


def in_step(run: Run) -> bool:
    """Tell whether simulated time goes with the rounds, so that curves over it would be those over rounds."""
    closed = run.rounds["closed_s"].drop_nulls().to_numpy()
    if len(closed) < 2 or closed[-1] <= 0:
        return True
    return bool(np.abs(closed / closed[-1] - np.arange(1, len(closed) + 1) / len(closed)).max() <= _STEADY)


def curves(run: Run, column: str = "loss", unit_s: float | None = None) -> tuple[Curve, ...]:
    """Compute the curves of a column of the learning table, one an optimizer; over time, where its unit is given."""
    if run.learning is None or run.learning.is_empty():
        return ()
    names = optimizers(run)
    pairs = references(names)
    own = [name for name in names if name not in pairs]
    x = pl.col("round") - INITIAL_ROUND if unit_s is None else pl.col("closed_s") / unit_s
    frame = run.learning.select("optimizer", x=x, value=column).drop_nulls("x").sort("x")
    parts = frame.partition_by("optimizer", as_dict=True)
    return tuple(
        curve_of(name, name in pairs, own.index(pairs.get(name, name)), parts.get((name,), frame.clear()))
        for name in names
    )


def curve_of(name: str, reference: bool, color: int, frame: pl.DataFrame) -> Curve:
    """Compute a curve from its points, in the columns ``x`` and ``value``."""
    value = frame["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    most = _FURTHER * max(abs(value[0]), 1e-6) if len(value) and np.isfinite(value[0]) else 1e100
    kept = np.isfinite(value) & (np.abs(value) <= most)
    x = frame["x"].cast(pl.Float64).to_numpy()
    lost = None if kept.all() else float(x[~kept][0])
    return Curve(name, reference, color, marks.binned(x[kept], value[kept], marks.edges(int(kept.sum()))), lost)


def curve_chart(
    name: str,
    title: str,
    found: Sequence[Curve],
    x: str,
    y: str,
    notes: Sequence[str] = (),
    levels: Sequence[plot.Rule] = (),
    after: Callable[[Axes], None] = lambda _: None,
) -> Chart:
    """Draw curves, those of references dashed; `after` changes the axes at the end."""
    shown = [curve for curve in found if len(curve.points.x)]
    said = list(notes)
    if (size := max(curve.points.size for curve in shown)) > 1:
        said.append(f"Lines are means over up to {count(size)} evaluations, bands go from the least to the greatest.")
    if paired := list(references([curve.optimizer for curve in found]).values()):
        said.append(f"Dashed: {listing([f'“{each}”' for each in paired])} under uniform participation.")
    for curve in found:
        if not len(curve.points.x):
            said.append(f"“{curve.optimizer}” has no finite value here.")
        elif curve.first_lost is not None:
            said.append(f"“{curve.optimizer}” diverged, and leaves the chart there ({x}: {number(curve.first_lost)}).")
    values = np.concatenate([curve.points.mean for curve in shown])
    far, floor = marks.spans_decades(values, ratio=4), _LEAST * float(values.max())
    if far and values.min() < floor:
        said.append(f"Values below {number(floor, 1)} lie under the axis.")

    last = max(curve.points.x[-1] for curve in shown)
    late = np.concatenate([curve.points.mean[curve.points.x >= last / 10] for curve in shown])
    least, most = float(late.min()), float(late.max())
    room = max(most - least, 0.02 * float(values.max() - least))
    if above := not far and values.max() > most + 2 * room:
        said.append(f"The first tenth begins above the axis, at {number(float(values.max()), 3)}.")

    def limited(axes: Axes) -> None:
        if far and values.min() < floor:
            axes.set_ylim(bottom=floor)
            marks.logarithmic(axes, "y")
        elif above:
            axes.set_ylim(min(least, values.min()) - 0.1 * room, most + room)
        after(axes)

    series = [(each.optimizer, each.points, marks.series_color(each.color), each.reference) for each in shown]
    return plot.line_plot(
        name,
        title,
        [plot.Series.of(*each) for each in series],
        (x, "linear" if x.startswith("simulated") else "whole"),
        (y, "log" if far else "linear"),
        notes=said,
        rules=[each for each in levels if each.at >= max(values.min() / 10, floor)],  # others only stretch the axis
        after=limited,
    )


def training_chart(run: Run, column: str = "loss") -> Chart | None:
    """Draw the loss of each optimizer, or its distance from the optimum and what was predicted, where that is known."""
    name, y = ("loss", "loss") if column == "loss" else ("optimum", "distance from the optimum")
    if run.learning is None or column not in run.learning.columns:
        return None
    size, unit = (None, "") if in_step(run) else marks.time_scale(run.simulated_s)
    found = curves(run, column, size)
    if not any(len(curve.points.x) for curve in found):
        return None
    foreseen = [(each, run.known.get(f"learning.{each.optimizer}.bias_predicted", 0.0)) for each in found]
    levels = [] if column == "loss" else [(curve, level) for curve, level in foreseen if level > 1e-9]
    ways = listing([f"{number(level, 3)} for “{curve.optimizer}”" for curve, level in levels])
    notes = [f"Dotted: where theory says that the mean model ends, {ways}; noise keeps each model further away."]
    along = f"simulated {unit}" if unit else "rounds done"
    rules = [plot.Rule("", level, color=marks.series_color(curve.color)) for curve, level in levels]
    return curve_chart(name, y.capitalize(), found, along, y, notes if levels else (), rules)
