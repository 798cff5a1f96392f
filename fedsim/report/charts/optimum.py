"""Where each optimizer ends, predicted and measured: distance from the optimum, where the problem knows it."""

from dataclasses import replace

from matplotlib.axes import Axes

from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.charts.learning import View, chart, curves, draw_curves
from fedsim.report.charts.marks import series_color
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import listing, number

VIEW = View(
    "optimum",
    "Distance from the optimum, predicted and measured",
    "distance",
    "distance from the optimum",
    last_half=True,
)


def optimum_charts(run: FinishedRun) -> tuple[Chart | Absent, ...]:
    """Make the chart of the distance, with what was predicted for each optimizer; none without such distances."""
    if run.learning is None or VIEW.column not in run.learning.columns:
        return ()
    data = curves(run, VIEW)
    found = chart(VIEW, data, "rounds")
    foreseen = {curve.optimizer: run.metrics.get(f"learning.{curve.optimizer}.bias_predicted") for curve in data}
    levels = {name: level for name, level in foreseen.items() if level is not None and level > 0}
    if isinstance(found, Absent) or not levels:
        return (found,)
    colors = {curve.optimizer: series_color(curve.color) for curve in data}
    # A level far below what noise leaves would only stretch the axis.
    least = min(float(curve.points.mean.min()) for curve in data if len(curve.points.x)) / 10

    def draw(axes: Axes) -> None:
        lines = [
            axes.axhline(level, color=colors[name], linewidth=1.2, linestyle=":")
            for name, level in levels.items()
            if level >= least
        ]
        draw_curves(VIEW, data, axes, drawn=[(each, "predicted") for each in lines[:1]])

    ways = [f"{number(level)} for {name}" for name, level in levels.items()]
    note = f"Dotted: where the frequencies lead the mean model, {listing(ways)}; noise keeps each model further away."
    return (replace(found, draw=draw, notes=(*found.notes, note)),)
