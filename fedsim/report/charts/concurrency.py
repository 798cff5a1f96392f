"""How many of a buffered server's places were taken over time."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from fedsim.report.binning import Floats
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.marks import INK, SERIES, label_axes, legend, linear
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, percent, time_unit
from fedsim.report.tables import Table, thinned

NAME, TITLE = "places", "How many sessions ran at once"


@dataclass(frozen=True)
class Concurrency:
    """Sessions in flight over time.

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


def concurrency_chart(run: FinishedRun) -> Chart | Absent:
    """Make the chart of places."""
    data = concurrency_data(run)
    if data is None:
        return Absent(NAME, TITLE, "Rounds begin and end their sessions together; this is a chart of buffered servers.")
    return Chart(
        name=NAME,
        title=TITLE,
        description=f"{percent(data.taken)} of the {count(data.concurrency, 'place')} were taken on average.",
        notes=(f"Means over {len(data.time)} equal spans of the run.",),
        table=_table(data),
        draw=partial(draw_concurrency, data),
    )


def _table(data: Concurrency) -> Table:
    rows = [(fixed(time, 2), fixed(running, 1)) for time, running in zip(data.time, data.running, strict=True)]
    return thinned(f"Sessions that ran at once (time in {data.unit})", ("Time", "Sessions"), rows)


def draw_concurrency(data: Concurrency, axes: Axes) -> None:
    """Draw the sessions in flight, and how many there may be."""
    axes.fill_between(data.time, 0, data.running, color=SERIES[0], alpha=0.16, linewidth=0)
    (running,) = axes.plot(data.time, data.running, color=SERIES[0])
    most = axes.axhline(data.concurrency, color=INK, linestyle=(0, (1, 1.6)), linewidth=1)
    axes.set_ylim(0, 1.1 * max(float(np.max(data.running)), float(data.concurrency)))
    linear(axes, "x")
    linear(axes, "y", whole=True)
    label_axes(axes, f"time ({data.unit})", "sessions in flight")
    legend(axes, [(running, "in flight"), (most, "concurrency")])
