"""Settings of a sweep side by side: bias against pace with the choice marked, and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.formatting import count, cut, number
from fedsim.pages.charts import Chart, marks
from fedsim.pages.metric_wording import tv, wording_of
from fedsim.pages.tables import Table, thinned
from fedsim.pages.trial_tables import standings
from fedsim.trials.contrasts import Interval, interval
from fedsim.trials.decision import PACE, Front, bias_metric, chosen, trade_off
from fedsim.trials.trials import Trials


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Values with their intervals, a row for each name."""

    names: tuple[str, ...]
    value: Floats
    half: Floats  # half of the 95 % interval, NaN where it is not known
    filled: Bools  # drawn full where it holds, else hollow
    legend: tuple[str, str]  # what full and hollow dots are
    unit: str
    reference: float | None  # the dotted line
    chosen: int | None = None  # the row that is marked


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
    for some, face, words in zip((data.filled, ~data.filled), (marks.SERIES[0], marks.PAPER), data.legend, strict=True):
        dots = marks.dots(axes, data.value[some], rows[some], marks.SERIES[0], 6, markerfacecolor=face)
        entries += [(dots, words)] if some.any() else []
    if data.chosen is not None:
        entries.append((_ring(axes, data.value[data.chosen], rows[data.chosen]), "choice"))
    if data.reference is not None:
        marks.rule(axes, x=data.reference)
    marks.linear(axes, "x")
    marks.finish(axes, data.unit, "", entries)


def _ring(axes: Axes, x: float, y: float) -> Artist:
    """Mark the choice."""
    return marks.dots(axes, x, y, marks.SERIES[1], 12, markeredgewidth=2, markerfacecolor="none", clip_on=False)


TRADE_OFF = "trade-off"
_LABEL = 30  # characters of the name of a setting that fit next to its mark
_DRAWN = 300  # marks of each kind drawn at most, evenly spaced
_NAMED = 40  # settings named at most


def trade_off_chart(trials: Trials) -> Chart | None:
    """Make the trade-off plot: bias as TV in per cent, and pace, means over the seeds; None where no run has both."""
    if (front := trade_off(trials)) is None:
        return None
    bias, pace = interval(50 * trials.samples(bias_metric(trials))), interval(trials.samples(PACE))
    known = np.flatnonzero(np.isfinite(bias.mean) & np.isfinite(pace.mean))
    notes = ["Left is slower, down is more even: the best corner is below on the right."]
    if np.isfinite(bias.half[known]).any():
        notes.append("Bars are 95\N{NARROW NO-BREAK SPACE}% intervals of the means over the seeds.")
    if front.dominated.any():
        some = " Of so many, every few are drawn." if front.dominated.sum() > _DRAWN else ""
        notes.append(f"Grey settings are worse in one and no better in the other than some setting on the line.{some}")
    names, stand = trials.names, standings(trials)
    best = [f"{names[k]} ({tv(bias.mean[k] / 50)} at {number(pace.mean[k])} rounds a day)" for k in front.rows[:8]]
    figures = np.stack([pace.mean, pace.half, bias.mean, bias.half]).T
    rows = [(names[k], stand[k], *map(number, figures[k])) for k in known]
    header = ("Setting", "Standing", "Rounds a day", "± 95 %", "TV from uniform, %", "± 95 %")
    settings = count(len(known), "setting")
    return Chart(
        name=TRADE_OFF,
        title=f"Bias against pace: {count(len(front.rows))} of {settings} {'is' if len(front.rows) == 1 else 'are'} "
        "beaten by no other",
        description=f"Distance from uniform against rounds per day. Nothing beats {'; '.join(best)}.",
        notes=tuple(notes),
        table=thinned("Bias and pace", header, rows),
        draw=partial(_draw_trade_off, trials, front, bias, pace, known),
    )


def _draw_trade_off(trials: Trials, front: Front, bias: Interval, pace: Interval, known: Ints, axes: Axes) -> None:
    """Draw every setting; the front joined and with its intervals, what is beaten in grey."""
    x, y, on = pace.mean, bias.mean, front.rows
    tall, wide = np.nan_to_num(bias.half[on]), np.nan_to_num(pace.half[on])
    axes.errorbar(x[on], y[on], tall, wide, linestyle="", color=marks.SERIES[0], linewidth=1.2)
    (line,) = axes.plot(x[on], y[on], color=marks.SERIES[0], marker="o", markersize=5.5, linewidth=1.2)
    entries: list[tuple[Artist, str]] = [(line, "beaten by no other")]
    beaten = known[front.dominated[known]]
    undecided = np.setdiff1d(known, [*beaten, *on])
    groups = (
        (undecided, marks.SERIES[0], "none", "not significantly beaten"),
        (beaten, marks.MUTED, marks.MUTED, "beaten"),
    )
    for those, edge, face, words in groups:
        if len(those):
            some = those[:: -(-len(those) // _DRAWN)]
            entries.append((marks.dots(axes, x[some], y[some], edge, 5, markerfacecolor=face), words))
    first = [row] if (row := chosen(trials)) in known else []
    entries += [(_ring(axes, float(x[best]), float(y[best])), "choice") for best in first]
    axes.margins(0.14, 0.2)  # names stay below the title of the axis
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    # The chosen one and the front are named first; names that would lie on others are left out.
    rows = dict.fromkeys([*first, *on[[0, -1]].tolist(), *on.tolist(), *known.tolist()])
    labels = [(cut(trials.names[row], _LABEL), float(x[row]), float(y[row])) for row in list(rows)[:_NAMED]]
    for text, at, height in _apart(labels, axes):
        right = at > axes.get_xlim()[0] + 0.6 * np.ptp(axes.get_xlim())
        offset = (-7 if right else 7, -13 if height == y[on[-1]] else 6)
        near: dict[str, Any] = {"ha": "right" if right else "left", "color": marks.MUTED, "fontsize": 8.2}
        axes.annotate(text, (at, height), offset, textcoords="offset points", **near)
    marks.linear(axes, "x")
    marks.linear(axes, "y")
    marks.finish(axes, wording_of(PACE).axis, "distance from uniform (TV, %)", entries if len(entries) > 1 else ())


def _apart(labels: Sequence[tuple[str, float, float]], axes: Axes) -> list[tuple[str, float, float]]:
    """Leave out the names that would lie on others before them."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    found: list[tuple[str, float, float]] = []
    for text, x, y in labels:
        if all(
            abs(x - other_x) > 0.011 * (len(text) + len(other) + 4) * wide or abs(y - other_y) > 0.075 * tall
            for other, other_x, other_y in found
        ):
            found.append((text, x, y))
    return found
