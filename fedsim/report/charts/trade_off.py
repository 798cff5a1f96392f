"""What evenness costs: bias against the pace of training, one mark for each setting of a sweep."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.report.charts import Absent, Chart
from fedsim.report.charts.marks import MUTED, SERIES, dots, finish, linear
from fedsim.report.formatting import count, cut, fixed, number
from fedsim.report.sweep_choice import SweepChoice
from fedsim.report.sweep_figures import BIAS_WORDING, L1, PACE, PACE_SHORT, misplaced
from fedsim.report.tables import thinned
from fedsim.sweeps.decision import ellipse, interval

NAME, TITLE = "trade-off", "What evenness costs"

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
        return Absent(NAME, TITLE, f"No run has both {L1} and {PACE}.")
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
        name=NAME,
        title=slower if fast != even and lost > 0 else TITLE,
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
