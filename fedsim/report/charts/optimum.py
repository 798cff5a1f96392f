"""Where each optimizer ends, predicted and measured: distance from the optimum, where the problem knows it."""

from dataclasses import replace

from fedsim.report.charts.learning import Curves, LearningChart
from fedsim.report.finished_run import FinishedRun
from fedsim.report.formatting import listing, number


class OptimumChart(LearningChart):
    """The distance over the last half of the run, with what was predicted for each optimizer."""

    heading, last_half = "Distance from the optimum, predicted and measured", True
    column, axis = "distance", "distance from the optimum"

    def prepare(self, run: FinishedRun) -> Curves | str | None:
        if run.learning is None or self.column not in run.learning.columns:
            return None
        data = super().prepare(run)
        if not isinstance(data, Curves):
            return data
        names = [curve.optimizer for curve in data.all]
        foreseen = {name: run.metrics.get(f"learning.{name}.bias_predicted", 0.0) for name in names}
        return replace(data, levels={name: level for name, level in foreseen.items() if level > 0})

    def notes(self, data: Curves) -> list[str]:
        if not data.levels:
            return super().notes(data)
        ways = [f"{number(level)} for {name}" for name, level in data.levels.items()]
        told = f"Dotted: where the frequencies lead the mean model, {listing(ways)}"
        return [*super().notes(data), f"{told}; noise keeps each model further away."]
