"""Settings of a sweep side by side: bias against pace with the choice marked, and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.findings.choice import SweepChoice
from fedsim.findings.formatting import count, cut, number
from fedsim.findings.metric_wording import PACE, tv, wording_of
from fedsim.report.charts import Absent, Chart, marks
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import interval


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
_NAMED = 40  # settings named at most


@dataclass(frozen=True, eq=False)
class _TradeOff:
    """Settings with bias and pace: arrays over them, means over the seeds."""

    names: tuple[str, ...]
    bias: Floats  # total variation distance in per cent
    bias_half: Floats  # half of the 95 % interval
    pace: Floats  # rounds per simulated day
    pace_half: Floats
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
    return _TradeOff(
        names=tuple(found.names[row] for row in known),
        bias=bias[known],
        bias_half=bias_half[known],
        pace=pace[known],
        pace_half=pace_half[known],
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
    if np.isfinite(data.bias_half).any():
        notes.append("Bars are 95\N{NARROW NO-BREAK SPACE}% intervals of the means over the seeds.")
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
    """Draw every setting; the front joined and with its intervals, what is beaten in grey."""
    on = data.front
    tall, wide = np.nan_to_num(data.bias_half[on]), np.nan_to_num(data.pace_half[on])
    axes.errorbar(data.pace[on], data.bias[on], tall, wide, linestyle="", color=marks.SERIES[0], linewidth=1.2)
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
    for row in list(rows)[:_NAMED]:
        text, x, y = cut(data.names[row], _LABEL), float(data.pace[row]), float(data.bias[row])
        if all(
            abs(x - other_x) > 0.011 * (len(text) + len(other) + 4) * wide or abs(y - other_y) > 0.075 * tall
            for other, other_x, other_y in found
        ):
            found.append((text, x, y))
    return found
