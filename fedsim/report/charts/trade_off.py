"""What evenness costs: bias against the pace of training, one mark for each setting of a sweep."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import MUTED, SERIES, label_axes, legend, linear
from fedsim.report.formatting import count, fixed, number
from fedsim.report.sweep_choice import Choice
from fedsim.report.sweep_figures import BIAS_TOLD, L1, PACE, PACE_SHORT, misplaced
from fedsim.report.tables import Table, thinned
from fedsim.sweeps.decision import ellipse, interval

NAME, TITLE = "trade-off", "What evenness costs"

LABEL = 30
"""Characters of the name of a setting that fit beside its mark."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Settings with bias and pace: arrays over them, means over the seeds.

    Parameters
    ----------
    names
        Of the settings.
    bias, bias_half
        Misplaced turns in per cent, and half of the 95 % interval.
    pace, pace_half
        Rounds per simulated day, and half of the interval.
    outlines
        The 95 % confidence region of each: (points, 2) of pace and bias; None with fewer than three seeds.
    standings
        How each stands, in a word.
    front
        The settings that nothing beats, the fastest first.
    dominated
        Those that another setting beats.
    chosen
        The one to choose; None where there is none.
    """

    names: tuple[str, ...]
    bias: Floats
    bias_half: Floats
    pace: Floats
    pace_half: Floats
    outlines: tuple[Floats | None, ...]
    standings: tuple[str, ...]
    front: Ints
    dominated: Bools
    chosen: int | None


def trade_off_data(found: Choice) -> TradeOff | None:
    """Compute the chart's data; None where no setting has both."""
    if found.front is None:
        return None
    (bias, bias_half), (pace, pace_half) = interval(50 * found.bias), interval(found.pace)
    known = np.flatnonzero(np.isfinite(bias) & np.isfinite(pace))
    if not len(known):
        return None
    place = {int(row): index for index, row in enumerate(known)}
    return TradeOff(
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


def paces_differ(found: Choice) -> bool:
    """Tell whether settings differ in pace by more than rounding, so that bias can be drawn against it."""
    pace = interval(found.pace)[0]
    pace = pace[np.isfinite(pace)]
    return len(pace) > 1 and bool(np.ptp(pace) > 1e-6 * np.abs(pace).max())


def trade_off_chart(found: Choice) -> Chart | Absent:
    """Make the trade-off plot."""
    data = trade_off_data(found)
    if data is None:
        return Absent(NAME, TITLE, f"No run has both {L1} and {PACE}.")
    fast, even = int(data.front[0]), int(data.front[-1])
    lost = 1 - data.pace[even] / data.pace[fast]
    title = (
        TITLE
        if fast == even or lost <= 0
        else f"The most even setting is {fixed(100 * lost, 1)} % slower than the fastest"
    )
    region = any(outline is not None for outline in data.outlines)
    sure = (
        "Ellipses are 95\N{NARROW NO-BREAK SPACE}% confidence regions of the means over the seeds. " if region else ""
    )
    if not region and np.isfinite(data.bias_half).any():
        sure = "Bars are 95\N{NARROW NO-BREAK SPACE}% confidence intervals of the means. "
    notes = [f"Left is slower, down is more even: the best corner is below on the right. {sure}".rstrip()]
    if data.dominated.any():
        notes.append("Grey settings are worse in one and no better in the other than some setting on the line.")
    return Chart(
        name=NAME,
        title=title,
        description=(
            f"Misplaced turns against rounds per day for {count(len(data.names), 'setting')}. Nothing beats "
            + "; ".join(
                f"{data.names[row]} ({misplaced(data.bias[row] / 50)} at {number(data.pace[row])} rounds a day)"
                for row in data.front[:8].tolist()
            )
            + "."
        ),
        notes=tuple(notes),
        table=_table(data),
        draw=partial(draw_trade_off, data),
    )


def _table(data: TradeOff) -> Table:
    rows: list[tuple[str, ...]] = []
    for row, name in enumerate(data.names):
        figures = (data.pace[row], data.pace_half[row], data.bias[row], data.bias_half[row], data.bias[row] / 50)
        rows.append((name, data.standings[row], *(number(figure) for figure in figures)))
    header = ("Setting", "Standing", "Rounds a day", "± 95 %", "Misplaced, %", "± 95 %", "L1 from uniform")
    return thinned("Bias and pace", header, rows)


def draw_trade_off(data: TradeOff, axes: Axes) -> None:
    """Draw every setting with its confidence region; the front joined, what is beaten in grey."""
    entries: list[tuple[Artist, str]] = []
    color = [MUTED if data.dominated[row] and row != data.chosen else SERIES[0] for row in range(len(data.names))]
    for row, outline in enumerate(data.outlines):
        if outline is not None:
            axes.fill(outline[:, 0], outline[:, 1], facecolor=color[row], edgecolor=color[row], alpha=0.22, linewidth=1)
        elif np.isfinite(data.bias_half[row]):
            axes.errorbar(
                data.pace[row],
                data.bias[row],
                xerr=np.nan_to_num(data.pace_half[row]),
                yerr=data.bias_half[row],
                color=color[row],
                linewidth=1,
                capsize=2,
            )
    on = data.front
    (line,) = axes.plot(data.pace[on], data.bias[on], color=SERIES[0], marker="o", markersize=5.5, linewidth=1.2)
    entries.append((line, "beaten by no other"))
    groups = (
        (~data.dominated & ~np.isin(np.arange(len(data.names)), on), SERIES[0], "none", "too close to tell"),
        (data.dominated, MUTED, MUTED, "beaten"),
    )
    for those, edge, face, words in groups:
        if those.any():
            (dots,) = axes.plot(
                data.pace[those],
                data.bias[those],
                linestyle="",
                marker="o",
                markersize=5,
                color=edge,
                markerfacecolor=face,
            )
            entries.append((dots, words))
    if data.chosen is not None:
        (ring,) = axes.plot(
            data.pace[data.chosen],
            data.bias[data.chosen],
            linestyle="",
            marker="o",
            markersize=12,
            markeredgewidth=2,
            color=SERIES[1],
            markerfacecolor="none",
        )
        entries.append((ring, "best"))
    axes.margins(0.14)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low) if low < 0.5 * high else low, high)
    for text, x, y in _labels(data, axes):
        right = x > axes.get_xlim()[0] + 0.6 * np.ptp(axes.get_xlim())
        axes.annotate(
            text,
            (x, y),
            xytext=(-7 if right else 7, -13 if y == data.bias[data.front[-1]] else 6),
            textcoords="offset points",
            ha="right" if right else "left",
            color=MUTED,
            fontsize=8.2,
        )
    linear(axes, "x")
    linear(axes, "y")
    label_axes(axes, PACE_SHORT, BIAS_TOLD.short)
    if len(entries) > 1:
        legend(axes, entries)


def _labels(data: TradeOff, axes: Axes) -> list[tuple[str, float, float]]:
    """Name the settings, the chosen and the front first, and leave out names that would lie on others."""
    wide, tall = np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
    first = [] if data.chosen is None else [data.chosen]
    ends = [int(data.front[0]), int(data.front[-1])]
    rows = dict.fromkeys([*first, *ends, *data.front.tolist(), *range(len(data.names))])
    found: list[tuple[str, float, float]] = []
    for row in rows:
        text, x, y = data.names[row], float(data.pace[row]), float(data.bias[row])
        text = text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"
        room = all(
            abs(x - other_x) > 0.011 * (len(text) + len(other) + 4) * wide or abs(y - other_y) > 0.075 * tall
            for other, other_x, other_y in found
        )
        if room:
            found.append((text, x, y))
    return found
