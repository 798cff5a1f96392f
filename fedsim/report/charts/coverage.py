"""How soon everybody had a turn: the share of clients that have taken part, over simulated time."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.report.binning import POINTS, Floats, edges
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.clock import time_axis, time_scale
from fedsim.report.charts.marks import SERIES, label_axes, percents
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, duration, fixed, listing, percent
from fedsim.report.tables import Table, thinned

NAME, TITLE = "coverage", "How soon everybody had a turn"

MARKS = (0.5, 0.9, 0.99)
"""Shares whose time is told in words."""


@dataclass(frozen=True)
class Coverage:
    """Clients that have taken part at least once, over simulated time.

    Parameters
    ----------
    clients
        N.
    unit, size
        The unit of time: its name and its length in seconds.
    longest
        Length of the run, in that unit.
    times
        Instants, in that unit, the last one being the end of the run.
    share
        Share of the clients that had taken part by then.
    reached
        (share, seconds) for those of `MARKS` that were reached.
    """

    clients: int
    unit: str
    size: float
    longest: float
    times: Floats
    share: Floats
    reached: tuple[tuple[float, float], ...]

    @property
    def shown(self) -> float:
        """Where the time axis ends: a run whose newcomers all come early is not shown to its end."""
        last = float(self.times[-2])
        return self.longest if last > self.longest / 3 else 1.5 * last or self.longest


def coverage_data(run: FinishedRun) -> Coverage | None:
    """Compute the chart's data; None when nobody took part."""
    firsts = run.gathered.firsts["first_s"].to_numpy()
    clients = len(run.clients)
    if not len(firsts):
        return None
    early = firsts[-1] <= run.simulated_s / 3
    size, unit = time_scale(1.5 * float(firsts[-1]) if early and firsts[-1] > 0 else run.simulated_s)
    # Where each of the first times stands in their order is how many had taken part by then.
    last = edges(len(firsts), POINTS)[1:] - 1
    times = np.concatenate([[0.0], firsts[last], [run.simulated_s]]) / size
    share = np.concatenate([[0.0], (last + 1) / clients, [len(firsts) / clients]])
    needed = [(mark, int(np.ceil(round(mark * clients, 9)))) for mark in MARKS]
    reached = tuple((mark, float(firsts[number - 1])) for mark, number in needed if 0 < number <= len(firsts))
    return Coverage(clients, unit, size, run.simulated_s / size, times, share, reached)


def coverage_chart(run: FinishedRun) -> Chart | Absent:
    """Make the chart of coverage."""
    data = coverage_data(run)
    if data is None:
        return Absent(NAME, TITLE, "Nobody took part in this run.")
    told = [f"{percent(mark)} of the clients after {duration(seconds)}" for mark, seconds in data.reached]
    notes = ["Clients that have taken part at least once, whatever became of the session."]
    if told:
        notes.append(f"Reached: {listing(told)}.")
    if data.shown < data.longest:
        notes.append(
            f"No newcomer came after {duration(data.times[-2] * data.size)}; the run goes on beyond the chart."
        )
    words = (
        f"Share of {count(data.clients, 'client')} that took part at least once: {percent(data.share[-1])} at the end"
    )
    return Chart(
        name=NAME,
        title=TITLE,
        description=f"{words}; {', '.join(told)}." if told else f"{words}.",
        notes=tuple(notes),
        table=_table(data),
        draw=partial(draw_coverage, data),
    )


def _table(data: Coverage) -> Table:
    rows = [(fixed(time, 3), percent(share)) for time, share in zip(data.times, data.share, strict=True)]
    return thinned("Clients that have taken part", (f"By ({data.unit})", "Share"), rows)


def draw_coverage(data: Coverage, axes: Axes) -> None:
    """Draw the share over time as steps."""
    axes.fill_between(data.times, data.share, step="post", color=SERIES[0], alpha=0.14, linewidth=0)
    axes.plot(data.times, data.share, drawstyle="steps-post", color=SERIES[0])
    for mark, seconds in data.reached:
        axes.plot(seconds / data.size, mark, marker="o", markersize=4.5, color=SERIES[0], clip_on=False)
    axes.set_ylim(0, 1.04)
    percents(axes)
    label_axes(axes, time_axis(axes, data.unit, data.shown), "clients that have taken part")
