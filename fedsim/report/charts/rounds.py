"""How long rounds took, and how much of that was waiting for enough eligible clients."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats
from fedsim.common.instants import time_unit
from fedsim.report.binning import Binned, binned, edges
from fedsim.report.charts.marks import SERIES, finish, line, linear, log_durations, spans_decades
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, duration, fixed, percent
from fedsim.report.tables import Table, thinned

_SAME = 1e-9  # durations that differ by no more than this part of them are the same


@dataclass(frozen=True)
class Durations:
    """Times over round numbers, in a unit that suits them."""

    rounds: int
    unit: str
    running: Binned  # from the selection of the cohort to the close; without rounds that selected no client
    waiting: Binned | None  # from the opening until then, or to the close without selection; None without waits
    logarithmic: bool  # whether times go on a logarithmic axis
    longest: float  # the longest time from opening to close, in seconds
    noun: str  # round, or version where the server is buffered
    size: float  # the unit, in seconds
    median: float  # of the times from opening to close, in seconds
    waited: float  # share of the simulated time that was spent waiting for clients


def _binned(rounds: pl.Series, times: Floats) -> Binned:
    return binned(rounds.to_numpy().astype(np.float64), times, edges(len(times)))


class DurationChart:
    """How long rounds took, and how much of that was waiting for enough eligible clients."""

    section = "rounds"

    def prepare(self, run: FinishedRun) -> Durations | str:
        closed = run.rounds.filter(pl.col("closed_s").is_finite()).with_columns(pl.col("selected_s").fill_nan(None))
        if closed.is_empty():
            return "No round closed in this run."
        chosen = closed.drop_nulls("selected_s")
        if run.buffered is not None:
            # A version begins when the one before ends, and waits for no client in particular.
            closed = chosen = closed.with_columns(selected_s=pl.col("opened_s"))
        running = (chosen["closed_s"] - chosen["selected_s"]).to_numpy()
        waiting = (closed["selected_s"].fill_null(closed["closed_s"]) - closed["opened_s"]).to_numpy()
        whole = (closed["closed_s"] - closed["opened_s"]).to_numpy()
        longest = float(whole.max())
        if len(whole) > 1 and not waiting.any() and longest - float(whole.min()) <= _SAME * longest:
            return f"Each of the {count(len(whole), run.noun)} took {duration(longest)}."
        typical = float(np.median(running)) if len(running) else longest
        # Waits that dwarf the running time would press it to the ground on a linear axis.
        far = len(running) > 0 and longest > 30 * typical > 0
        size, unit = time_unit(typical if len(running) and not far else longest)
        return Durations(
            rounds=len(closed),
            unit=unit,
            running=_binned(chosen["round"], running / size),
            waiting=_binned(closed["round"], waiting / size) if waiting.any() else None,
            logarithmic=far or spans_decades(running, ratio=30),
            longest=longest,
            size=size,
            median=float(np.median(whole)),
            waited=float(waiting.sum() / run.simulated_s) if run.simulated_s else 0.0,
            noun=run.noun,
        )

    def title(self, run: FinishedRun) -> str:
        return f"How long {run.noun}s took"

    def finding(self, data: Durations) -> str:
        longest = f"the longest {data.noun} took {duration(data.longest)}"
        if data.waited:
            return f"Waiting for clients took {percent(data.waited)} of the time; {longest}"
        return f"The median {data.noun} took {duration(data.median)}, {longest.replace(f' {data.noun} took', '')}"

    def description(self, data: Durations) -> str:
        return f"Durations of {count(data.rounds, data.noun)}; the longest took {duration(data.longest)}."

    def notes(self, data: Durations) -> Iterator[str]:
        if (size := max(points.size for _, points in _lines(data))) > 1:
            bins = f"bins of up to {count(size, data.noun)}"
            yield f"Lines are means over {bins}; bands go from least to greatest."
        if data.waiting is not None:
            waiting = "the time from a round's opening until enough clients were eligible to select from"
            yield f"Waiting is {waiting}."
            if data.logarithmic:
                yield "A wait of zero, or shorter than all running times, lies below the axis."

    def table(self, data: Durations) -> Table:
        rows = [
            (count(first), name, fixed(mean), fixed(low), fixed(high))
            for name, points in _lines(data)
            for first, mean, low, high in zip(points.first, points.mean, points.low, points.high, strict=True)
        ]
        header = (f"From {data.noun}", "Time", "Mean", "Least", "Greatest")
        return thinned(f"{data.noun.capitalize()} durations ({data.unit})", header, rows)

    def draw(self, data: Durations, axes: Axes) -> None:
        """Draw times over round numbers."""
        lines = _lines(data)
        entries = [(line(axes, points, SERIES[index]), name) for index, (name, points) in enumerate(lines)]
        highest = max(float(points.high.max()) for _, points in lines)
        if data.logarithmic:
            # The lower limit is that of the running time: waiting may be zero.
            axes.set_ylim(float(data.running.low[data.running.low > 0].min()) / 1.5, highest * 1.5)
            log_durations(axes, data.size)
        else:
            axes.set_ylim(0, 1.15 * highest or 1.0)
            linear(axes, "y")
        linear(axes, "x", whole=True)
        finish(axes, data.noun, "duration" if data.logarithmic else f"duration ({data.unit})", entries)


def _lines(data: Durations) -> tuple[tuple[str, Binned], ...]:
    name = "selection to close" if data.noun == "round" else "a version"
    running = ((name, data.running),) if len(data.running.x) else ()
    waiting = (("waiting to select", data.waiting),) if data.waiting is not None else ()
    return (*running, *waiting)
