"""How long clients stayed away between two participations, and the separation that they must keep."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats, Ints
from fedsim.findings.finished_run import FinishedRun
from fedsim.findings.formatting import count, count_range, duration, fixed, listing, percent
from fedsim.report.charts import marks
from fedsim.report.tables import Table, thinned

_COLUMNS = 30  # the most columns, each of one R or of several neighbouring ones
_BARS = 36  # the most bars of a histogram


@dataclass(frozen=True)
class Gaps:
    """Gaps by separation: from round t to round t + gap."""

    noun: str  # what the server counts by: round or version
    # Where all clients have one separation: the edges of the bars of a histogram, and the share of the gaps in each.
    bars: tuple[Ints, Floats] | None
    first: Ints  # the separations of each column, from
    last: Ints  # and to
    least: Ints  # the least of the gaps there
    low: Ints  # their quantile 0.05
    median: Ints
    high: Ints  # their quantile 0.95
    size: Ints  # how many they are


def _column(table: pl.DataFrame, first: int, last: int) -> tuple[int, ...]:
    own = table.filter(pl.col("separation").is_between(first, last)).group_by("gap").agg(pl.col("len").sum())
    own = own.sort("gap")
    gaps, sizes = own["gap"].to_numpy(), own["len"].to_numpy().astype(np.int64)
    reached = np.cumsum(sizes)
    quantiles = [int(gaps[np.searchsorted(reached, q * reached[-1])]) for q in (0.05, 0.5, 0.95)]
    return first, last, int(gaps[0]), *quantiles, int(reached[-1])


def _histogram(table: pl.DataFrame) -> tuple[Ints, Floats]:
    gaps, sizes = table["gap"].to_numpy(), table["len"].to_numpy().astype(np.float64)
    low, high = int(gaps[0]), int(gaps[-1])
    if high > 30 * low:
        grown = np.rint(np.geomspace(max(1, low), high + 1, _BARS + 1)).astype(np.int64)
        bounds = np.unique([low, *grown])  # low is 0 where a client took part twice in a version of a buffered server
    else:
        width = max(1, -(-(high - low + 1) // _BARS))
        bounds = np.arange(low, high + 1 + width, width, dtype=np.int64)
    return bounds, np.histogram(gaps, bounds, weights=sizes)[0] / sizes.sum()


class GapChart:
    """How long clients stayed away, and the separation that they must keep."""

    section = "bias"

    def prepare(self, run: FinishedRun) -> Gaps | str:
        table = run.gathered.gaps
        if table.is_empty():
            return "No client took part twice."
        separations = table["separation"].unique().sort().to_numpy()
        parts = np.array_split(separations, min(_COLUMNS, len(separations)))
        columns = [_column(table, int(part[0]), int(part[-1])) for part in parts]
        arrays = [np.array(values, dtype=np.int64) for values in zip(*columns, strict=True)]
        if table["gap"].n_unique() == 1:
            return f"Whoever came back did so after exactly {count(table['gap'][0], run.noun)}, every time."
        return Gaps(run.noun, None if len(separations) > 1 else _histogram(table), *arrays)

    def title(self, run: FinishedRun) -> str:
        return f"{run.noun.capitalize()}s between participations"

    def finding(self, data: Gaps) -> str:
        if data.bars is not None:
            half, most = count(data.median[0], data.noun), count(data.high[0])
            return f"Half come back within {half}, nineteen of twenty within {most}"
        return self.description(data)[:-1]

    def description(self, data: Gaps) -> str:
        if data.bars is not None:
            return (
                f"Gaps between two participations of a client at R = {data.first[0]}: the least is "
                f"{count(data.least[0], data.noun)}, the median {count(data.median[0])}; nineteen of twenty are at "
                f"most {count(data.high[0])}."
            )
        words = f"Median gaps from {count(data.median[0], data.noun)} at R = {data.first[0]}"
        return f"{words} to {count(data.median[-1], data.noun)} at R = {data.last[-1]}."

    def notes(self, data: Gaps) -> Iterator[str]:
        noun = data.noun
        if data.bars is not None:
            yield f"R = {data.first[0]}: after {noun} t, nobody may come back before {noun} t + {data.first[0] + 1}."
            half = f"Half of the gaps are at most {count(data.median[0], noun)}."
            yield f"Bars show the share of gaps for each {noun}, averaged over the bar. {half}"
            return
        boxes = "Boxes hold nine gaps of ten, from the quantile 0.05 to 0.95; the line in them is the median."
        yield f"{boxes} Nobody may come back below the dotted line, R + 1."
        if (data.first != data.last).any():
            yield "Neighbouring separations are gathered."

    def table(self, data: Gaps) -> Table:
        if data.bars is not None:
            bounds, shares = data.bars
            spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), shares, strict=True)
            bars = [(count_range(start, end - 1), fixed(100 * share, 2)) for start, end, share in spans]
            return thinned("Gaps between participations", (f"{data.noun.capitalize()}s", "Share (%)"), bars)
        columns = (data.first, data.last, data.size, data.least, data.low, data.median, data.high)
        rows = [(count_range(first, last), *map(count, values)) for first, last, *values in zip(*columns, strict=True)]
        return thinned(f"Gaps by separation, in {data.noun}s", ("R", "Gaps", "Least", "5 %", "Median", "95 %"), rows)

    def draw(self, data: Gaps, axes: Axes) -> None:
        if data.bars is not None:
            _draw_histogram(data, *data.bars, axes)
        else:
            _draw_boxes(data, axes)


def _draw_boxes(data: Gaps, axes: Axes) -> None:
    """Draw a box for each separation, with the rule as a line."""
    middle = (data.first + data.last) / 2
    steps = np.diff(middle)
    width = 0.32 * float(steps.min()) if len(steps) else 0.4
    box = axes.bar(middle, data.high - data.low, 2 * width, bottom=data.low, color=marks.SERIES[0], alpha=0.3)
    median = axes.hlines(data.median, middle - width, middle + width, color=marks.SERIES[0], linewidth=2)
    least = marks.dots(axes, middle, data.least, marks.SERIES[0], 2.8)
    along = np.linspace(data.first[0], data.last[-1], 60)
    (soonest,) = axes.plot(along, along + 1, color=marks.INK, linestyle=marks.DOTTED, linewidth=1)
    far = marks.spans_decades(np.append(data.high, data.least).astype(np.float64), ratio=20)
    axes.set_ylim(bottom=float(data.first[0] + 1) / 1.3 if far else 0)
    marks.set_scale(axes, "y", far)
    marks.linear(axes, "x", whole=True)
    entries = [(box[0], "nine of ten"), (median, "median"), (least, "least"), (soonest, "R + 1")]
    marks.finish(axes, f"separation R ({data.noun}s)", f"gap ({data.noun}s)", entries)


def _draw_histogram(data: Gaps, bounds: Ints, share: Floats, axes: Axes) -> None:
    """Draw the bars, as a density, and the rule as a line."""
    density = share / np.diff(bounds)
    bars = axes.stairs(density, bounds - 0.5, fill=True, color=marks.SERIES[0], alpha=0.75)
    limit = marks.rule(axes, x=data.first[0] + 0.5)
    far = bounds[-1] > 30 * bounds[0]
    if far:
        axes.set_xlim(max(0.5, bounds[0] - 1) / 1.2, bounds[-1] * 1.1)
        marks.logarithmic(axes, "x")
    else:
        marks.linear(axes, "x", whole=True)
    axes.set_ylim(0, 1.08 * float(density.max()))
    axes.yaxis.set_major_formatter(marks.percent_tick)
    entries = [(bars, "gaps"), (limit, f"must be more than R = {data.first[0]}")]
    marks.finish(axes, f"gap ({data.noun}s)", f"gaps, share for each {data.noun}", entries)


_MARKS = {0.5: "Half", 0.9: "90\N{NARROW NO-BREAK SPACE}%", 0.99: "99\N{NARROW NO-BREAK SPACE}%"}
"""Shares whose time the words give."""


@dataclass(frozen=True)
class Coverage:
    """Clients that have taken part at least once, over simulated time."""

    clients: int
    unit: str
    size: float  # the unit, in seconds
    longest: float  # length of the run, in that unit
    times: Floats  # instants, in that unit, the last one being the end of the run
    share: Floats  # share of the clients that had taken part by then
    reached: tuple[tuple[float, float], ...]  # (share, seconds) for those of `_MARKS` that were reached

    @property
    def shown(self) -> float:
        """Where the time axis ends: a run whose newcomers all come early is not shown to its end."""
        last = float(self.times[-2])
        return self.longest if last > self.longest / 3 else 1.5 * last or self.longest


class CoverageChart:
    """The share of clients that have taken part, over simulated time."""

    title, section = "How soon everybody had a turn", "bias"

    def prepare(self, run: FinishedRun) -> Coverage | str:
        firsts = run.gathered.firsts["first_s"].to_numpy()
        clients = len(run.clients)
        if not len(firsts):
            return "Nobody took part in this run."
        early = firsts[-1] <= run.simulated_s / 3
        size, unit = marks.time_scale(1.5 * float(firsts[-1]) if early and firsts[-1] > 0 else run.simulated_s)
        # Where each of the first times stands in their order is how many had taken part by then.
        last = marks.edges(len(firsts))[1:] - 1
        times = np.concatenate([[0.0], firsts[last], [run.simulated_s]]) / size
        share = np.concatenate([[0.0], (last + 1) / clients, [len(firsts) / clients]])
        needed = [(mark, int(np.ceil(round(mark * clients, 9)))) for mark in _MARKS]
        reached = tuple((mark, float(firsts[number - 1])) for mark, number in needed if 0 < number <= len(firsts))
        return Coverage(clients, unit, size, run.simulated_s / size, times, share, reached)

    def finding(self, data: Coverage) -> str:
        turns = [(_MARKS[mark], f"after {duration(seconds)}") for mark, seconds in data.reached]
        if data.share[-1] < max(_MARKS):
            turns = [*turns[:1], (percent(data.share[-1]), "by the end")]
        (who, when), *later = turns
        return ", ".join([f"{who} had a turn {when}", *(" ".join(each) for each in later[-1:])])

    def description(self, data: Coverage) -> str:
        who = f"Share of {count(data.clients, 'client')} that took part at least once"
        text = f"{who}: {percent(data.share[-1])} at the end"
        return f"{text}; {', '.join(_times_of_marks(data))}." if data.reached else f"{text}."

    def notes(self, data: Coverage) -> Iterator[str]:
        yield "Clients that have taken part at least once, whatever became of the session."
        if data.reached:
            yield f"Reached: {listing(_times_of_marks(data))}."
        if data.shown < data.longest:
            last = duration(data.times[-2] * data.size)
            yield f"No newcomer came after {last}; the run goes on beyond the chart."

    def table(self, data: Coverage) -> Table:
        rows = [(fixed(time, 3), percent(share)) for time, share in zip(data.times, data.share, strict=True)]
        return thinned("Clients that have taken part", (f"By ({data.unit})", "Share"), rows)

    def draw(self, data: Coverage, axes: Axes) -> None:
        axes.fill_between(data.times, data.share, step="post", color=marks.SERIES[0], alpha=0.14, linewidth=0)
        axes.plot(data.times, data.share, drawstyle="steps-post", color=marks.SERIES[0])
        for mark, seconds in data.reached:
            axes.plot(seconds / data.size, mark, marker="o", markersize=4.5, color=marks.SERIES[0], clip_on=False)
        axes.set_ylim(0, 1.04)
        marks.percents(axes)
        marks.finish(axes, marks.time_axis(axes, data.unit, data.shown), "clients that have taken part")


def _times_of_marks(data: Coverage) -> list[str]:
    return [f"{percent(mark)} of the clients after {duration(seconds)}" for mark, seconds in data.reached]
