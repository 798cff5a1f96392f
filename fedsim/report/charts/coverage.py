"""How soon everybody had a turn: the share of clients that have taken part, over simulated time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats
from fedsim.report.binning import POINTS, edges
from fedsim.report.charts.marks import SERIES, finish, percents, time_axis, time_scale
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, duration, fixed, listing, percent
from fedsim.report.tables import Table, thinned

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
        size, unit = time_scale(1.5 * float(firsts[-1]) if early and firsts[-1] > 0 else run.simulated_s)
        # Where each of the first times stands in their order is how many had taken part by then.
        last = edges(len(firsts), POINTS)[1:] - 1
        times = np.concatenate([[0.0], firsts[last], [run.simulated_s]]) / size
        share = np.concatenate([[0.0], (last + 1) / clients, [len(firsts) / clients]])
        needed = [(mark, int(np.ceil(round(mark * clients, 9)))) for mark in _MARKS]
        reached = tuple((mark, float(firsts[number - 1])) for mark, number in needed if 0 < number <= len(firsts))
        return Coverage(clients, unit, size, run.simulated_s / size, times, share, reached)

    def finding(self, data: Coverage) -> str:
        turns = [f"{_MARKS[mark]} had a turn after {duration(seconds)}" for mark, seconds in data.reached]
        share = float(data.share[-1])
        if share < max(_MARKS):
            turns = [*turns[:1], f"{percent(share)} had a turn by the end"]
        return ", ".join([turns[0], *(each.replace(" had a turn", "") for each in turns[1:][-1:])])

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
        """Draw the share over time as steps."""
        axes.fill_between(data.times, data.share, step="post", color=SERIES[0], alpha=0.14, linewidth=0)
        axes.plot(data.times, data.share, drawstyle="steps-post", color=SERIES[0])
        for mark, seconds in data.reached:
            axes.plot(seconds / data.size, mark, marker="o", markersize=4.5, color=SERIES[0], clip_on=False)
        axes.set_ylim(0, 1.04)
        percents(axes)
        finish(axes, time_axis(axes, data.unit, data.shown), "clients that have taken part")


def _times_of_marks(data: Coverage) -> list[str]:
    return [f"{percent(mark)} of the clients after {duration(seconds)}" for mark, seconds in data.reached]
