"""The charts of a sweep: a metric along it, parts of a loss, bias and loss against pace, and loss curves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import polars as pl

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.formatting import count, cut, listing_of, number, percent
from fedsim.common.intervals import student_quantile
from fedsim.measure.metrics import describe
from fedsim.measure.noise import DEGREES
from fedsim.pages.charts import Chart, marks
from fedsim.pages.charts.learning import FURTHER
from fedsim.pages.charts.plot import AxisLook, LineLook, Rows, Rule, Series, line_plot, row_plot
from fedsim.pages.methods import INITIAL_ROUND
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.tables import thinned
from fedsim.pages.trial_tables import gained_nothing, marked, means, order_of, standings
from fedsim.trials.contrasts import CONFIDENCE, interval, margins
from fedsim.trials.decision import bias_metric, front, is_of_lengths, judge_settings, pace_metric, without_noise
from fedsim.trials.store import CURVE_POINTS
from fedsim.trials.trials import SIDE, Axis, Trials

TRADE_OFF = "trade-off"
_LINES = 6  # shown at most
_VALUES = 9  # up to so many values of a parameter are all written under the axis, where there is room
_LABEL = 12  # characters of a value that fit under an axis
_SAME_PACE = 0.01  # paces that differ by no more than this part of them are the same
_NAMED = 40  # settings named at most
_MOST = 0.95  # of a descent, at which training is near its end
_MARKS = 30  # characters of values that fit under an axis, in all


@dataclass(frozen=True, eq=False)
class Line:
    """The settings that share the values of all parameters but the one along the axis, and a metric at these."""

    name: str  # those values; empty where there is but one line
    points: Ints  # rows of the points of the sweep, in the order of x
    x: Floats  # where each point lies, in ascending order
    mean: Floats  # of the metric over the seeds
    margin: Floats  # how far the interval reaches down and up, (2, points), NaN where it is not known


def _reach(trials: Trials, metric: str) -> Floats:
    """Return how far intervals reach down and up: of means over seeds, or those that the two sides' runs state."""
    reach, errors = margins(trials.samples(metric)), trials.errors(metric) if SIDE in trials.parameters else None
    entry = describe(metric) if metric.endswith(without_noise("")) else None
    if entry is not None:  # where all distances are 0 with noise removed, the runs say how sure that is
        above = means(trials, entry.high) - means(trials, metric)
        reach = np.where(reach == 0, np.stack([0 * above, np.nan_to_num(above)]), reach)
    return reach if errors is None else np.stack([student_quantile(DEGREES + 1, CONFIDENCE) * errors] * 2)


def lines_of(trials: Trials, metric: str) -> Iterator[Line]:
    """Yield a metric along the axis of a sweep; nothing where it has no value, or nothing is swept."""
    along, mean, reach = trials.axis, means(trials, metric), _reach(trials, metric)
    if along is not None:
        for name, rows in trials.rows_along(along, np.isfinite(mean)):
            yield Line(name, rows, along.x[rows], mean[rows], reach[:, rows])


def _along(axis: Axis) -> AxisLook:
    """Return the x axis of a chart along a sweep."""
    values, title = np.unique(axis.x), cut(axis.label, 44)
    if axis.ticks:
        return AxisLook(title, ticks={float(at): cut(each, _LABEL) for at, each in enumerate(axis.marks)})
    drawn = np.log(values) if marks.is_log("auto", values) else values
    few = len(values) <= _VALUES and (len(values) < 2 or np.diff(drawn).min() > 0.07 * np.ptp(drawn))
    return AxisLook(title, "auto", {value: number(value) for value in values.tolist()} if few else None)


def _series(trials: Trials, lines: Mapping[str, Line], chosen: int | None, scale: float = 1.0) -> list[Series]:
    """Draw lines with their intervals, crosses off them where settings are not compared, and mark the choice."""
    unfit, color = judge_settings(trials).unfit, marks.series_color
    series = [
        Series(name, line.x, scale * line.mean, color(at), "marked", scale * line.margin, apart=unfit[line.points])
        for at, (name, line) in enumerate(lines.items())
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
    if not trials.axis.ordered or sum(map(len, trials.axis.marks)) > _MARKS:
        return _named_rows(trials, metric, name, title, theory, chosen)
    series = _series(trials, {line.name or "measured": line for line in lines[:_LINES]}, chosen, wording.scale)
    predicted = np.full(len(trials.names), np.nan) if theory is None else wording.scale * means(trials, theory)
    series += [
        Series(f"theory{f', {line.name}' * bool(line.name)}", line.x, predicted[line.points], each.color, "dashed")
        for line, each in zip(lines[:_LINES], series, strict=False)
        if np.isfinite(predicted[line.points]).all()
    ]
    sure = any(np.isfinite(line.margin).any() for line in lines)  # else small differences are not drawn large
    bands = "; bands are 95\N{NARROW NO-BREAK SPACE}% intervals of the mean"
    notes = [f"Points are means over the seeds{bands if sure else ''}."]
    if (omitted := len(lines) - _LINES) > 0:
        notes.append(f"{count(omitted, 'more line')} in the table of settings.")
    axes = _along(trials.axis), AxisLook(wording.axis, "linear" if sure else "from 0")
    return line_plot(name, title, series, *axes, notes=notes)


def _named_rows(trials: Trials, metric: str, name: str, title: str, theory: str | None, chosen: int | None) -> Chart:
    """Draw a metric in a row for each setting, where values have no order or names are long."""
    wording, mean = wording_of(metric), means(trials, metric)
    rows = np.flatnonzero(np.isfinite(mean))[:_NAMED]
    reach = _reach(trials, metric)[:, rows]
    row_data = Rows(
        names=[trials.names[row] for row in rows],
        value=wording.scale * mean[rows],
        margin=wording.scale * reach if np.isfinite(reach).any() else None,
        filled=np.full(len(rows), True),
        legend=("measured", "", "not compared"),
        unit=wording.axis,
        crossed=judge_settings(trials).unfit[rows],
        chosen=next(iter(np.flatnonzero(rows == chosen).tolist()), None),
        theory=None if theory is None else wording.scale * means(trials, theory)[rows],
    )
    return row_plot(row_data, name, title)


def parts_chart(trials: Trials, name: str, parts: Mapping[str, str], chosen: int | None = None) -> Chart | None:
    """Make the chart of the loss of an optimizer and its parts; None where fewer than two settings form one line."""
    lines = {words: drawn[0] for words, metric in parts.items() if len(drawn := [*lines_of(trials, metric)]) == 1}
    if trials.axis is None or len(lines) < len(parts) or any(len(line.x) < 2 for line in lines.values()):
        return None
    if not trials.axis.ordered or sum(map(len, trials.axis.marks)) > _MARKS:
        return None  # the table has them
    notes = ["Each part is the difference of two runs over the same log, of which one has one thing less."]
    look, title = (_along(trials.axis), AxisLook("loss above the optimum", "log")), f"Loss of “{name}” and its parts"
    series = [replace(each, margin=None) if at else each for at, each in enumerate(_series(trials, lines, chosen))]
    return line_plot(f"parts-{name}", title, series, *look, notes=notes)


def pace_chart(trials: Trials, metric: str, name: str, title: str) -> Chart | None:
    """Draw a metric beside the pace, a line for each that runs along the sweep; None where the pace is the same.

    Settings with runs of which the loss had not converged are hollow.
    """
    wording, daily, along, names = wording_of(metric), pace_metric(trials), trials.axis, trials.names
    samples, first, unfit = wording.scale * trials.samples(metric), marked(trials), judge_settings(trials).unfit
    value, pace = interval(samples), interval(trials.samples(daily))
    kept = np.isfinite(value.mean) & np.isfinite(pace.mean)
    if along is None or not kept.any() or not np.ptp(pace.mean[kept]) > _SAME_PACE * pace.mean[kept].max():
        return None
    series = list[Series]()
    for index, (line, at) in enumerate(trials.rows_along(along, kept)):
        labels = [along.named(along.x[row]) for row in at[:_NAMED]]
        look: LineLook = "marked" if along.ordered else "dots"
        shown, color = (line, marks.series_color(index)) if index < _LINES else ("", marks.MUTED)
        series.append(Series(shown, pace.mean[at], value.mean[at], color, look, names=labels, apart=unfit[at]))
    converged = trials.samples(f"{metric.rpartition('.')[0]}.converged")
    chosen = kept & (np.arange(len(names)) == first)
    open_ = kept & ~unfit & (np.isfinite(samples) & (converged < 1)).any(axis=1)
    looks: dict[LineLook, tuple[str, Bools]] = {"hollow": ("runs not converged", open_), "ring": ("choice", chosen)}
    for how, (words, some) in looks.items():
        series += [Series(words, pace.mean[some], value.mean[some], marks.INK, how)] if some.any() else []
    notes = ["Right is faster. Means over the seeds; the data have the intervals."]
    figures = np.stack([pace.mean, pace.half, value.mean, value.half]).T
    rows = [(names[k], standings(trials)[k], *map(number, figures[k])) for k in np.flatnonzero(kept)]
    header = ("Setting", "Standing", wording_of(daily).axis, "± 95 %", wording.axis, "± 95 %")
    y = AxisLook(wording.axis, "linear" if metric == bias_metric(trials) else "auto")
    chart = line_plot(name, title, series, AxisLook(wording_of(daily).axis), y, notes=notes)
    return replace(chart, table=thinned(title, header, rows))


def trade_off_chart(trials: Trials) -> Chart | None:
    """Draw bias beside the pace, and say which settings no other beats in both; None where no run has both."""
    bias, unfit, names = bias_metric(trials), judge_settings(trials).unfit, trials.names
    if (chart := pace_chart(trials, bias, TRADE_OFF, "Bias beside pace")) is None:
        return None
    ends = front(np.where(unfit[:, None], np.nan, trials.samples(bias)), trials.samples(pace_metric(trials)))
    of, best = " that is compared" if unfit.any() else "", listing_of([names[row] for row in ends], _LINES)
    if len(ends) == (~unfit).sum() > 1:
        return replace(chart, finding=f"The more even a setting{of} is, the slower it is.")
    return replace(chart, finding=f"No other setting{of} is both faster and more even than {best}.")


@lru_cache(4)
def curves_chart(trials: Trials) -> Chart | None:
    """Draw losses over the rounds: of each optimizer where a run trains several, at the choice; else of each setting.

    None where no run kept its losses.
    """
    rows = [int(row) for row in order_of(judge_settings(trials).contrast)]
    first = rows[0] if (choice := judge_settings(trials).choice) is None else choice
    first = int(np.argmax(trials.axes[0].x)) if is_of_lengths(trials) else first
    losses, where = trials.curves(first), ""
    lines = {str(name): each for (name,), each in losses.group_by("optimizer", maintain_order=True)}
    if len(lines) > 1 and len(trials.names) > 1:
        where = f" at {trials.names[first]}"
    elif len(lines) == 1:
        places = np.zeros(len(trials.names)) if trials.axis is None else trials.axis.x
        rows = sorted([*dict.fromkeys([first, *rows])][:_LINES], key=lambda row: (places[row], row))
        lines = {trials.names[row]: trials.curves(row) for row in rows}
    ordered = not where and len(trials.axes) == 1 and trials.axes[0].ordered and len(lines) == len(rows) > 2
    colors = marks.shades(len(lines)) if ordered else marks.SERIES
    curves = [_curve(name, each, color) for (name, each), color in zip(lines.items(), colors, strict=False)]
    shown = [each for each in curves if len(each.x) > 1]
    if not shown:
        return None
    banded = len(shown) < 2  # else bands, of seeds with other data, lie on each other's lines
    shown = shown if banded else [replace(each, margin=None) for each in shown]
    notes = [f"Lines are means over the seeds{', bands go from the least to the greatest' * banded}."]
    notes += ["Each run is measured by its initial loss: seeds have other data."]
    if not where and (chosen := marked(trials)) is not None and len(shown) > 1:
        ends = [each for each in shown if each.name == trials.names[chosen]]
        shown += [Series("choice", each.x[-1:], each.y[-1:], marks.INK, "ring") for each in ends]
    left = len(lines if where else trials.names) - _LINES
    best = f"The best {_LINES} of {len(trials.names)} settings."
    notes += [f"{count(left, 'more line')} left out." if where else best] * (left > 0)
    look = AxisLook("rounds done", "whole"), AxisLook("loss (1: the initial model)", "auto")
    ordered &= not is_of_lengths(trials)  # of which a longer one has its end later
    finding = _slowest([each for each in shown if len(each.x) > 1], trials.names[first]) if ordered else ""
    rules = [Rule("initial model", 1.0)] if gained_nothing(trials) else []
    return line_plot("curves", f"Loss over the rounds{where}", shown, *look, rules, notes, finding)


def _slowest(curves: Sequence[Series], chosen: str) -> str:
    """Say how long the training of the choice, or the slowest, takes for most of its descent, and which takes least.

    "" where all take about as long.
    """
    ends = [float(each.y[len(each.y) // 2 :].mean()) for each in curves]
    rounds = [float(each.x[np.argmax(1 - each.y >= _MOST * (1 - end))]) for each, end in zip(curves, ends, strict=True)]
    slow, fast = int(np.argmax(rounds)), int(np.argmin(rounds))
    if max(ends) >= 1 or rounds[slow] < 1.5 * rounds[fast]:
        return ""
    of_choice = [at for at, each in enumerate(curves) if each.name == chosen and rounds[at] >= 1.5 * rounds[fast]]
    shown = ((*of_choice, slow)[0], " rounds"), (fast, "")
    took = [f"{number(rounds[at], 2)}{words} at {curves[at].name}" for at, words in shown]
    return f"{percent(_MOST)} of the descent of the loss takes about {' and '.join(took)}."


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
