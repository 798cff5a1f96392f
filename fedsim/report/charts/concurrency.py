"""How many of a buffered server's places were taken over time."""

import numpy as np
from matplotlib.axes import Axes

from fedsim.common.arrays import Floats
from fedsim.report.charts.marks import SERIES, finish, linear, rule
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import count, fixed, percent, time_unit
from fedsim.report.tables import Table, thinned


class ConcurrencyChart:
    """How many of a buffered server's places were taken over time."""

    title, section = "How many sessions ran at once", "rounds"

    def prepare(self, run: FinishedRun) -> FinishedRun | str | None:
        if run.buffered is None:
            return None
        return run if run.simulated_s > 0 else "No time passed in this run."

    def description(self, run: FinishedRun) -> str:
        places = run.scenario.server.wanted
        taken = round(float(_running(run)[1].mean()) / places, 9)
        return f"{percent(taken)} of the {count(places, 'place')} were taken on average."

    def notes(self, run: FinishedRun) -> str:
        return f"Means over {len(_running(run)[0])} equal spans of the run."

    def table(self, run: FinishedRun) -> Table:
        times, sessions, unit = _running(run)
        rows = [(fixed(time, 2), fixed(running, 1)) for time, running in zip(times, sessions, strict=True)]
        return thinned(f"Sessions that ran at once (time in {unit})", ("Time", "Sessions"), rows)

    def draw(self, run: FinishedRun, axes: Axes) -> None:
        """Draw the sessions in flight, and how many there may be."""
        times, sessions, unit = _running(run)
        places = run.scenario.server.wanted
        axes.fill_between(times, 0, sessions, color=SERIES[0], alpha=0.16, linewidth=0)
        (running,) = axes.plot(times, sessions, color=SERIES[0])
        most = rule(axes, y=places)
        axes.set_ylim(0, 1.1 * max(float(np.max(sessions)), float(places)))
        linear(axes, "x")
        linear(axes, "y", whole=True)
        finish(axes, f"time ({unit})", "sessions in flight", [(running, "in flight"), (most, "concurrency")])


def _running(run: FinishedRun) -> tuple[Floats, Floats, str]:
    """Return the middles of equal spans of a run, the sessions that ran in each on average, and the unit of time."""
    assert run.buffered is not None
    size, unit = time_unit(run.simulated_s)
    time_s = run.buffered.time_s
    return (time_s - 0.5 * time_s[0]) / size, run.buffered.running, unit
