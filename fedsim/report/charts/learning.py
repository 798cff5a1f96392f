"""How each optimizer learned: loss and gradient norm over rounds, whole run and last half, and over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.report.binning import Binned, binned, edges
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.clock import time_axis, time_scale
from fedsim.report.charts.marks import (
    label_axes,
    legend,
    line,
    linear,
    logarithmic,
    series_color,
    spans_decades,
)
from fedsim.report.finished_run import INITIAL_ROUND, FinishedRun
from fedsim.report.formatting import count, listing, number
from fedsim.report.optimizers import optimizers, references
from fedsim.report.tables import Table, thinned


@dataclass(frozen=True)
class View:
    """One of the learning charts: which column, over which part of the run."""

    name: str
    title: str
    column: str
    axis: str
    last_half: bool
    over_time: bool = False


VIEWS = (
    View("loss", "Loss, whole run", "loss", "loss", last_half=False),
    View("loss-last-half", "Loss, last half", "loss", "loss", last_half=True),
    View("gradient", "Gradient norm, whole run", "grad_norm", "gradient norm", last_half=False),
    View("gradient-last-half", "Gradient norm, last half", "grad_norm", "gradient norm", last_half=True),
    View("loss-time", "Loss over simulated time", "loss", "loss", last_half=False, over_time=True),
    View(
        "gradient-time",
        "Gradient norm over simulated time",
        "grad_norm",
        "gradient norm",
        last_half=False,
        over_time=True,
    ),
)


@dataclass(frozen=True)
class Curve:
    """One optimizer's values over the number of rounds done, 0 being the initial model, or over simulated seconds.

    Parameters
    ----------
    optimizer
        Its name.
    reference
        Whether it was trained under uniform participation, to compare with.
    color
        Which colour of the palette: a reference shares that of its optimizer.
    points
        Its finite values.
    lost
        Values that are not finite and therefore not drawn.
    first_lost
        x of the first of them; None without any.
    """

    optimizer: str
    reference: bool
    color: int
    points: Binned
    lost: int
    first_lost: float | None


def curves(run: FinishedRun, view: View) -> tuple[Curve, ...]:
    """Compute the curves of a view, one for each optimizer."""
    if run.learning is None or run.learning.is_empty():
        return ()
    names = optimizers(run)
    pairs = references(names)
    colors = _colors(names, pairs)
    x = pl.col("closed_s") / unit_of(run, view)[0] if view.over_time else pl.col("round") - INITIAL_ROUND
    frame = run.learning.select(x.alias("x"), "optimizer", pl.col(view.column).alias("value")).drop_nulls("x").sort("x")
    if view.last_half:
        frame = frame.filter(pl.col("x") > pl.col("x").max() / 2)
    parts = frame.partition_by("optimizer", as_dict=True)
    return tuple(_curve(name, name in pairs, colors[name], parts.get((name,), frame.clear())) for name in names)


def unit_of(run: FinishedRun, view: View) -> tuple[float, str]:
    """Return the unit in which a view goes along: its size, and its name in the plural."""
    return time_scale(run.simulated_s) if view.over_time else (1.0, "rounds")


def _colors(names: tuple[str, ...], pairs: Mapping[str, str]) -> Mapping[str, int]:
    own = [name for name in names if name not in pairs]
    return {name: own.index(pairs.get(name, name)) for name in names}


def _curve(name: str, reference: bool, color: int, frame: pl.DataFrame) -> Curve:
    finite = pl.col("value").is_finite().fill_null(value=False)
    kept, lost = frame.filter(finite), frame.filter(~finite)
    x, value = kept["x"].to_numpy().astype(np.float64), kept["value"].to_numpy()
    return Curve(
        optimizer=name,
        reference=reference,
        color=color,
        points=binned(x, value, edges(len(kept))),
        lost=len(lost),
        first_lost=float(lost["x"][0]) if len(lost) else None,
    )


def learning_charts(run: FinishedRun) -> tuple[Chart | Absent, ...]:
    """Make the charts of loss and gradient norm."""
    if run.learning is None:
        return (
            Absent(
                "loss",
                "Loss and gradient norm",
                "This scenario has no learning: it asks only who takes part.",
            ),
        )
    return tuple(chart(view, curves(run, view), unit_of(run, view)[1]) for view in VIEWS)


def chart(view: View, data: tuple[Curve, ...], unit: str) -> Chart | Absent:
    """Make the chart of a view."""
    if not any(len(curve.points.x) for curve in data):
        return Absent(view.name, view.title, f"No optimizer has a finite {view.axis} here.")
    return Chart(
        name=view.name,
        title=view.title,
        description=_describe(view, data),
        notes=_notes(data, unit),
        table=_table(view, data, unit),
        draw=partial(draw_curves, view, data, unit=unit),
    )


def _describe(view: View, data: tuple[Curve, ...]) -> str:
    ways = [
        f"{curve.optimizer} from {number(curve.points.mean[0])} to {number(curve.points.mean[-1])}"
        for curve in data
        if len(curve.points.x)
    ]
    over = "simulated time" if view.over_time else "rounds"
    return f"{view.axis.capitalize()} over {over}: {listing(ways)}."


def _notes(data: tuple[Curve, ...], unit: str) -> tuple[str, ...]:
    notes = []
    largest = max(curve.points.size for curve in data)
    if largest > 1:
        notes.append(
            f"Lines are means over bins of up to {count(largest)} evaluations; bands go from the least to the greatest."
        )
    if any(curve.reference for curve in data):
        notes.append("Dashed: the same optimizer under uniform participation, drawn without a band.")
    for curve in data:
        if not len(curve.points.x):
            notes.append(f"{curve.optimizer} has no finite value here.")
        elif curve.first_lost is not None:
            lost = f"{count(curve.lost, 'value')}, first after {number(curve.first_lost)} {unit}"
            notes.append(f"{curve.optimizer}: what is not finite is not drawn ({lost}).")
    return tuple(notes)


def _table(view: View, data: tuple[Curve, ...], unit: str) -> Table:
    shown = [curve for curve in data if len(curve.points.x)]
    grid = sorted({float(x) for curve in shown for x in curve.points.first})
    columns = [dict(zip(curve.points.first.tolist(), curve.points.mean.tolist(), strict=True)) for curve in shown]
    write = number if view.over_time else count
    rows = [(write(x), *(number(column.get(x)) for column in columns)) for x in grid]
    along = f"simulated {unit}" if view.over_time else "rounds done"
    caption = f"{view.axis.capitalize()} by {along}, mean of the bin that starts there"
    return thinned(caption, (along.capitalize(), *(curve.optimizer for curve in shown)), rows)


def draw_curves(
    view: View, data: tuple[Curve, ...], axes: Axes, unit: str = "rounds", drawn: Sequence[tuple[Artist, str]] = ()
) -> None:
    """Draw one line for each optimizer, references dashed, beside what has been drawn already."""
    shown = [curve for curve in data if len(curve.points.x)]
    entries = [
        (line(axes, curve.points, series_color(curve.color), dashed=curve.reference), curve.optimizer)
        for curve in shown
    ]
    if spans_decades(np.concatenate([curve.points.mean for curve in shown]), ratio=4):
        logarithmic(axes, "y")
    else:
        linear(axes, "y")
    if view.over_time:
        title = time_axis(axes, unit, max(float(curve.points.last[-1]) for curve in shown))
    else:
        linear(axes, "x", whole=True)
        title = "rounds done"
    label_axes(axes, title, view.axis)
    legend(axes, [*entries, *drawn])
