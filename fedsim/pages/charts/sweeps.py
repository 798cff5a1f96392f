"""The charts of a sweep: a metric along it, parts of a loss, bias and loss against pace, and loss curves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.formatting import count, cut, number
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.learning import FURTHER
from fedsim.pages.charts.plot import AxisLook, LineLook, Series, line_plot
from fedsim.pages.methods import INITIAL_ROUND
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import thinned
from fedsim.pages.trial_tables import means, order_of, standings
from fedsim.trials.contrasts import interval
from fedsim.trials.decision import bias_metric, chosen, compared, pace_metric, trade_off
from fedsim.trials.store import CURVE_POINTS
from fedsim.trials.trials import Axis, Trials

TRADE_OFF = "trade-off"
_LINES = 6  # shown at most
_BANDS = 2  # lines that bands are drawn around, at most
_VALUES = 9  # up to so many values of a parameter are all written under the axis, where there is room
_LABEL = 12  # characters of a value that fit under an axis
_NAMED = 40  # settings named at most


@dataclass(frozen=True, eq=False)
class Line:
    """The settings that share the values of all parameters but the one along the axis, and a metric at these."""

    name: str  # those values; empty where there is but one line
    points: Ints  # rows of the points of the sweep, in the order of x
    x: Floats  # where each point lies, in ascending order
    mean: Floats  # of the metric over the seeds
    half: Floats  # of the 95 % confidence interval, NaN where it is not known


def lines_of(trials: Trials, metric: str) -> Iterator[Line]:
    """Yield a metric along the axis of a sweep; nothing where it has no value, or nothing is swept."""
    along, measured = trials.axis, interval(trials.samples(metric))
    if along is not None:
        for name, rows in trials.rows_along(along, np.isfinite(measured.mean)):
            yield Line(name, rows, along.x[rows], measured.mean[rows], measured.half[rows])


def _along(axis: Axis) -> AxisLook:
    """Return the x axis of a chart along a sweep."""
    values, title = np.unique(axis.x), cut(axis.label, 44)
    if axis.ticks:
        return AxisLook(title, ticks={float(at): cut(each, _LABEL) for at, each in enumerate(axis.marks)})
    few = len(values) <= _VALUES and (len(values) < 2 or np.diff(values).min() > 0.07 * np.ptp(values))
    return AxisLook(title, "auto", {value: number(value) for value in values.tolist()} if few else None)


def _series(axis: Axis, lines: Mapping[str, Line], chosen: int | None, scale: float = 1.0) -> list[Series]:
    """Draw lines with their intervals, dots where values have no order, and mark the choice on the first with it."""
    look: LineLook = "marked" if axis.ordered else "dots"
    series = [
        Series(name, line.x, scale * line.mean, marks.series_color(index), look, scale * line.half)
        for index, (name, line) in enumerate(lines.items())
    ]
    at = [(line, line.points == chosen) for line in lines.values() if chosen in line.points]
    return [*series, *(Series("choice", line.x[on], scale * line.mean[on], marks.INK, "ring") for line, on in at[:1])]


def line_chart(
    trials: Trials, metric: str, name: str, title: str, theory: str | None = None, chosen: int | None = None
) -> Chart | None:
    """Make the chart of a metric along a sweep, in the unit of its wording; None where no run has a value."""
    wording, lines = wording_of(metric), [*lines_of(trials, metric)]
    if trials.axis is None or not lines:
        return None
    series = _series(trials.axis, {line.name or "measured": line for line in lines[:_LINES]}, chosen, wording.scale)
    predicted = np.full(len(trials.names), np.nan) if theory is None else wording.scale * means(trials, theory)
    look: LineLook = "dashed" if trials.axis.ordered else "hollow"
    series += [
        Series(f"theory{f', {line.name}' * bool(line.name)}", line.x, predicted[line.points], each.color, look)
        for line, each in zip(lines[:_LINES], series, strict=False)
        if np.isfinite(predicted[line.points]).all()
    ]
    sure = any(np.isfinite(line.half).any() for line in lines)
    bands = f"; {'bands' if trials.axis.ordered else 'bars'} are 95\N{NARROW NO-BREAK SPACE}% intervals of the mean"
    notes = [f"Points are means over the seeds{bands if sure else ''}."]
    if (omitted := len(lines) - _LINES) > 0:
        notes.append(f"{count(omitted, 'more line')} in the table of settings.")
    return line_plot(name, title, series, _along(trials.axis), AxisLook(wording.axis), notes=notes)


def parts_chart(trials: Trials, name: str, parts: Mapping[str, str], chosen: int | None = None) -> Chart | None:
    """Make the chart of the loss of an optimizer and its parts; None where fewer than two settings form one line."""
    lines = {words: drawn[0] for words, metric in parts.items() if len(drawn := [*lines_of(trials, metric)]) == 1}
    if trials.axis is None or len(lines) < len(parts) or any(len(line.x) < 2 for line in lines.values()):
        return None
    notes = ["Each part is the difference of two runs over the same log, of which one has one thing less."]
    if any((line.mean <= 0).any() for line in lines.values()):
        notes.append("What is zero or less is not on a logarithmic axis; the table has it.")
    look, title = (_along(trials.axis), AxisLook("loss above the optimum", "log")), f"Loss of “{name}” and its parts"
    return line_plot(f"parts-{name}", title, _series(trials.axis, lines, chosen), *look, notes=notes)


def trade_off_chart(trials: Trials) -> Chart | None:
    """Make the trade-off plot: bias as TV in per cent, and pace, means over the seeds; None where no run has both."""
    if (front := trade_off(trials)) is None:
        return None
    names, stand, first = trials.names, standings(trials), chosen(trials)
    daily = pace_metric(trials)
    bias, pace = interval(50 * trials.samples(bias_metric(trials))), interval(trials.samples(daily))
    complete = np.flatnonzero(np.isfinite(bias.mean) & np.isfinite(pace.mean))
    beaten = np.setdiff1d(complete, front)

    def points(words: str, rows: Ints, color: str, look: LineLook, margin: Floats | None = None) -> list[Series]:
        labels = [names[row] for row in rows[:_NAMED]]
        dots = Series(words, pace.mean[rows], bias.mean[rows], color, look, margin, names=labels)
        return [dots] if len(rows) else []

    # The choice and the front are named first; names that would lie on others are left out.
    series = [
        *points("choice", complete[complete == first], marks.SERIES[1], "ring"),
        *points("beaten by no other", front, marks.SERIES[0], "marked", bias.half[front]),
        *points("beaten", beaten, marks.MUTED, "dots"),
    ]
    notes = ["Left is slower, down is more even: the best corner is below on the right."]
    if np.isfinite(bias.half[complete]).any():
        notes.append("The band has the 95\N{NARROW NO-BREAK SPACE}% intervals of the means over the seeds.")
    if len(beaten):
        notes.append("Grey settings are worse in one and no better in the other than some setting on the line.")
    verb, settings = "is" if len(front) == 1 else "are", count(len(complete), "setting")
    title = f"Bias against pace: {count(len(front))} of {settings} {verb} beaten by no other"
    look = AxisLook(wording_of(daily).axis), AxisLook("distance from uniform (TV, %)")
    figures = np.stack([pace.mean, pace.half, bias.mean, bias.half]).T
    rows = [(names[k], stand[k], *map(number, figures[k])) for k in complete]
    header = ("Setting", "Standing", wording_of(daily).axis, "± 95 %", "TV from uniform, %", "± 95 %")
    return replace(line_plot(TRADE_OFF, title, series, *look, notes=notes), table=thinned(title, header, rows))


def loss_and_pace_chart(trials: Trials, optimizers: Sequence[str]) -> Chart | None:
    """Draw the loss of each optimizer beside the pace, settings with runs that had not converged hollow.

    None where no run has both, or all have the same pace.
    """
    pace, series = means(trials, pace_metric(trials)), list[Series]()
    for index, name in enumerate(optimizers):
        values = trials.samples(f"learning.{name}.loss")
        loss, settled = interval(values), (trials.samples(f"learning.{name}.converged") >= 1) | np.isnan(values)
        complete = np.isfinite(loss.mean) & np.isfinite(pace)
        for words, among in (("", settled.all(axis=1)), (", some runs not converged", ~settled.all(axis=1))):
            look: LineLook = "hollow" if words else "dots"
            at = np.flatnonzero(complete & among)
            names = [trials.names[row] for row in at[:_NAMED]] if not index else ()
            dots = Series(f"{name}{words}", pace[at], loss.mean[at], marks.series_color(index), look, loss.half[at])
            series += [replace(dots, names=names)] if len(at) else []
    seen = np.concatenate([each.x for each in series]) if series else np.empty(0)
    if not len(seen) or not np.ptp(seen) > 1e-9 * seen.max():
        return None
    axes = AxisLook(wording_of(pace_metric(trials)).axis), AxisLook("loss", "auto")
    notes = ["Right is faster, down is a lower loss. Means over the seeds; hollow: some runs had not converged."]
    return line_plot("loss-and-pace", "Loss beside pace", series, *axes, notes=notes)


def curves_chart(trials: Trials) -> Chart | None:
    """Draw losses over the rounds: of each optimizer where a run trains several, at the choice; else of each setting.

    None where no run kept its losses.
    """
    rows = [int(row) for row in order_of(compared(trials))] if compared(trials).best is not None else [0]
    first = rows[0] if (choice := chosen(trials)) is None else choice
    losses, where = trials.curves(first), ""
    lines = {str(name): each for (name,), each in losses.group_by("optimizer", maintain_order=True)}
    if len(lines) > 1 and len(trials.names) > 1:
        where = f" at {trials.names[first]}"
    elif len(lines) == 1:
        lines = {trials.names[row]: trials.curves(row) for row in [*range(len(trials.names))][:_LINES]}
    curves = [_curve(name, each, marks.series_color(k)) for k, (name, each) in enumerate([*lines.items()][:_LINES])]
    shown = [each for each in curves if len(each.x) > 1]
    if not shown:
        return None
    if len(shown) > _BANDS:
        shown = [replace(each, margin=None) for each in shown]
    notes = [f"Lines are means over the seeds{', bands go from the least to the greatest' * (len(shown) <= _BANDS)}."]
    notes += ["Each run is measured by its initial loss: seeds have other data."]
    left = len(trials.names if len(lines) < 2 or not where else lines) - _LINES
    notes += [f"{count(left, 'more line')} left out."] if left > 0 else []
    look = AxisLook("rounds done", "whole"), AxisLook("loss (1: the initial model)", "auto")
    return line_plot("curves", f"Loss over the rounds{where}", shown, *look, notes=notes)


def _curve(name: str, table: pl.DataFrame, color: str) -> Series:
    """Return the mean of the loss curves of some runs, until the first of them ends or diverges, and their range."""
    runs = [curve.sort("round") for curve in table.partition_by("run_id")]
    last = min((int(run["round"][-1]) - INITIAL_ROUND for run in runs), default=0)
    x = np.unique(np.linspace(0, last, CURVE_POINTS).astype(np.int64)).astype(np.float64)
    values = np.full((max(1, len(runs)), len(x)), np.nan)
    for row, run in enumerate(runs):
        loss = run["loss"].fill_null(np.nan).to_numpy()
        if loss[0] > 0:
            values[row] = np.interp(x, run["round"].to_numpy() - INITIAL_ROUND, loss) / loss[0]
    kept = np.cumprod((values < FURTHER).all(axis=0)).astype(bool)
    values, mean = values[:, kept], values[:, kept].mean(axis=0)
    margin = np.stack([mean - values.min(axis=0), values.max(axis=0) - mean])
    return Series(name, x[kept], mean, color, margin=margin, interval="least to greatest")
