"""How many of a buffered server's places were taken over time."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from fedsim.report.binning import Floats
from fedsim.report.charts.marks import SERIES, finish, linear, rule
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, percent, time_unit
from fedsim.report.tables import Table, thinned


@dataclass(frozen=True)
class Concurrency:
    """Sessions that ran, over time.

    Parameters
    ----------
    unit
        Name of the unit of time.
    time
        (K,) middles of equal spans of the run, in that unit.
    running
        (K,) sessions that ran in each, on average.
    concurrency
        How many may.
    taken
        Share of the places that were taken over the whole run.
    """

    unit: str
    time: Floats
    running: Floats
    concurrency: int
    taken: float


def concurrency_data(run: FinishedRun) -> Concurrency | None:
    """Compute the chart's data; None where the server runs rounds, or no time passed."""
    if run.buffered is None or run.simulated_s <= 0:
        return None
    concurrency = run.scenario.server.wanted
    size, unit = time_unit(run.simulated_s)
    time_s = run.buffered.time_s
    return Concurrency(
        unit=unit,
        time=(time_s - 0.5 * time_s[0]) / size,
        running=run.buffered.running,
        concurrency=concurrency,
        taken=round(float(run.buffered.running.mean()) / concurrency, 9),
    )


class ConcurrencyChart:
    """How many of a buffered server's places were taken over time."""

    title, section = "How many sessions ran at once", "rounds"

    def prepare(self, run: FinishedRun) -> Concurrency | str | None:
        reason = "Rounds begin and end their sessions together; this is a chart of buffered servers."
        return None if run.buffered is None else concurrency_data(run) or reason

    def description(self, data: Concurrency) -> str:
        return f"{percent(data.taken)} of the {count(data.concurrency, 'place')} were taken on average."

    def notes(self, data: Concurrency) -> list[str]:
        return [f"Means over {len(data.time)} equal spans of the run."]

    def table(self, data: Concurrency) -> Table:
        rows = [(fixed(time, 2), fixed(running, 1)) for time, running in zip(data.time, data.running, strict=True)]
        return thinned(f"Sessions that ran at once (time in {data.unit})", ("Time", "Sessions"), rows)

    def draw(self, data: Concurrency, axes: Axes) -> None:
        """Draw the sessions in flight, and how many there may be."""
        axes.fill_between(data.time, 0, data.running, color=SERIES[0], alpha=0.16, linewidth=0)
        (running,) = axes.plot(data.time, data.running, color=SERIES[0])
        most = rule(axes, y=data.concurrency)
        axes.set_ylim(0, 1.1 * max(float(np.max(data.running)), float(data.concurrency)))
        linear(axes, "x")
        linear(axes, "y", whole=True)
        finish(axes, f"time ({data.unit})", "sessions in flight", [(running, "in flight"), (most, "concurrency")])
