"""How long clients stayed away between two participations, beside the separation that they must keep."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.report.binning import Floats, Ints
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import INK, SERIES, label_axes, legend, linear, logarithmic, spans_decades
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, number
from fedsim.report.tables import thinned

NAME = "gaps"

COLUMNS = 30
"""At most so many values of R, or groups of neighbouring ones, beside each other."""

BARS = 36
"""At most so many bars of a histogram."""


@dataclass(frozen=True)
class Gaps:
    """Gaps by separation: from round t to round t + gap.

    Parameters
    ----------
    first, last
        Separations gathered in each column, from and to.
    least, low, median, high
        Of the gaps there: the least, and the quantiles 0.05, 0.5 and 0.95.
    size
        How many gaps.
    """

    first: Ints
    last: Ints
    least: Ints
    low: Ints
    median: Ints
    high: Ints
    size: Ints


@dataclass(frozen=True)
class Histogram:
    """Gaps of clients that all have the same separation.

    Parameters
    ----------
    separation
        R.
    bounds
        Where the bars begin, and where the last one ends.
    share
        Of all gaps, in each bar.
    all
        The figures of the whole.
    """

    separation: int
    bounds: Ints
    share: Floats
    all: Gaps


def gap_data(run: FinishedRun) -> Gaps | Histogram | None:
    """Compute the chart's data: a histogram where all have one separation; None when nobody came back."""
    table = run.gathered.gaps
    if table.is_empty():
        return None
    separations = table["separation"].unique().sort().to_numpy()
    parts = np.array_split(separations, min(COLUMNS, len(separations)))
    columns = [_column(table, int(part[0]), int(part[-1])) for part in parts]
    whole = Gaps(*(np.array(values, dtype=np.int64) for values in zip(*columns, strict=True)))
    return whole if len(separations) > 1 else _histogram(table, whole)


def _column(table: pl.DataFrame, first: int, last: int) -> tuple[int, ...]:
    own = table.filter(pl.col("separation").is_between(first, last)).group_by("gap").agg(pl.col("len").sum())
    own = own.sort("gap")
    gaps, sizes = own["gap"].to_numpy(), own["len"].to_numpy().astype(np.int64)
    reached = np.cumsum(sizes)
    quantiles = [int(gaps[np.searchsorted(reached, q * reached[-1])]) for q in (0.05, 0.5, 0.95)]
    return first, last, int(gaps[0]), *quantiles, int(reached[-1])


def _histogram(table: pl.DataFrame, whole: Gaps) -> Histogram:
    gaps, sizes = table["gap"].to_numpy(), table["len"].to_numpy().astype(np.float64)
    low, high = int(gaps[0]), int(gaps[-1])
    if high > 30 * low:
        bounds = np.unique(np.rint(np.geomspace(low, high + 1, BARS + 1)).astype(np.int64))
    else:
        width = max(1, -(-(high - low + 1) // BARS))
        bounds = np.arange(low, high + 1 + width, width, dtype=np.int64)
    share = np.histogram(gaps, bounds, weights=sizes)[0] / sizes.sum()
    return Histogram(int(whole.first[0]), bounds, share, whole)


def gap_chart(run: FinishedRun) -> Chart | Absent:
    """Make the chart of gaps."""
    data, noun = gap_data(run), run.noun
    title = f"{noun.capitalize()}s between participations"
    if data is None:
        return Absent(NAME, title, "No client took part twice.")
    if isinstance(data, Histogram):
        return _histogram_chart(data, title, noun)
    notes = [
        "Boxes hold nine gaps of ten, from the quantile 0.05 to 0.95; the line in them is the median. "
        "Nobody may come back below the dotted line, R + 1."
    ]
    if (data.first != data.last).any():
        notes.append("Neighbouring separations are gathered.")
    words = f"Median gaps from {count(data.median[0], noun)} at R = {data.first[0]}"
    rows = [
        (_between(first, last), count(size), *(count(value) for value in values))
        for first, last, size, *values in zip(
            data.first, data.last, data.size, data.least, data.low, data.median, data.high, strict=True
        )
    ]
    return Chart(
        name=NAME,
        title=title,
        description=f"{words} to {count(data.median[-1], noun)} at R = {data.last[-1]}.",
        notes=tuple(notes),
        table=thinned(f"Gaps by separation, in {noun}s", ("R", "Gaps", "Least", "5 %", "Median", "95 %"), rows),
        draw=partial(draw_gaps, data, noun),
    )


def _between(first: int, last: int) -> str:
    return count(first) if first == last else f"{count(first)} to {count(last)}"


def _histogram_chart(data: Histogram, title: str, noun: str) -> Chart:
    whole = data.all
    rows = [
        (_between(start, end - 1), fixed(100 * share, 2))
        for start, end, share in zip(data.bounds[:-1].tolist(), data.bounds[1:].tolist(), data.share, strict=True)
    ]
    return Chart(
        name=NAME,
        title=title,
        description=(
            f"Gaps between two participations of a client at R = {data.separation}: the least is "
            f"{count(whole.least[0], noun)}, the median {count(whole.median[0])}; nineteen of twenty are at most "
            f"{count(whole.high[0])}."
        ),
        notes=(
            f"R = {data.separation}: after {noun} t, nobody may come back before {noun} t + {data.separation + 1}.",
            f"Bars show the share of gaps for each {noun}, averaged over the bar. "
            f"Half of the gaps are at most {count(whole.median[0], noun)}.",
        ),
        table=thinned("Gaps between participations", (f"{noun.capitalize()}s", "Share (%)"), rows),
        draw=partial(draw_histogram, data, noun),
    )


def draw_gaps(data: Gaps, noun: str, axes: Axes) -> None:
    """Draw a box for each separation, with the rule as a line."""
    middle = (data.first + data.last) / 2
    steps = np.diff(middle)
    width = 0.32 * float(steps.min()) if len(steps) else 0.4
    box = axes.bar(middle, data.high - data.low, 2 * width, bottom=data.low, color=SERIES[0], alpha=0.3)
    median = axes.hlines(data.median, middle - width, middle + width, color=SERIES[0], linewidth=2)
    least = axes.plot(middle, data.least, linestyle="", marker="o", markersize=2.8, color=SERIES[0])[0]
    along = np.linspace(data.first[0], data.last[-1], 60)
    (rule,) = axes.plot(along, along + 1, color=INK, linestyle=(0, (1, 1.6)), linewidth=1)
    if spans_decades(np.append(data.high, data.least).astype(np.float64), ratio=20):
        axes.set_ylim(bottom=float(data.first[0] + 1) / 1.3)
        logarithmic(axes, "y")
    else:
        axes.set_ylim(bottom=0)
        linear(axes, "y")
    linear(axes, "x", whole=True)
    label_axes(axes, f"separation R ({noun}s)", f"gap ({noun}s)")
    legend(axes, [(box[0], "nine of ten"), (median, "median"), (least, "least"), (rule, "R + 1")])


def draw_histogram(data: Histogram, noun: str, axes: Axes) -> None:
    """Draw the bars, as a density, and the rule as a line."""
    density = data.share / np.diff(data.bounds)
    bars = axes.stairs(density, data.bounds - 0.5, fill=True, color=SERIES[0], alpha=0.75)
    rule = axes.axvline(data.separation + 0.5, color=INK, linestyle=(0, (1, 1.6)), linewidth=1)
    far = data.bounds[-1] > 30 * data.bounds[0]
    if far:
        axes.set_xlim(max(0.5, data.bounds[0] - 1) / 1.2, data.bounds[-1] * 1.1)
        logarithmic(axes, "x")
    else:
        linear(axes, "x", whole=True)
    axes.set_ylim(0, 1.08 * float(density.max()))
    axes.yaxis.set_major_formatter(lambda value, _: f"{number(100 * value)}\N{NARROW NO-BREAK SPACE}%")
    label_axes(axes, f"gap ({noun}s)", f"gaps, share for each {noun}")
    legend(axes, [(bars, "gaps"), (rule, f"must be more than R = {data.separation}")])
