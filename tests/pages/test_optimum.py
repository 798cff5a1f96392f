"""Predicted against measured, in the report of a run whose problem knows its optimum."""

from pathlib import Path

import numpy as np
import pytest

from fedsim import Scenario, simulate
from fedsim.pages.charts import Chart
from fedsim.pages.charts.learning import training_chart
from fedsim.pages.tables import learning_table
from fedsim.run.load import load_one


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quadratic") / "run"
    scenario = Scenario.load("scenarios/paper/quadratic-bias.fedsim.yaml", ["stop.rounds=300"])
    simulate(scenario).save(folder)
    return folder


def test_the_table_sets_predicted_against_measured(directory: Path) -> None:
    """A column for each, with the figures of the metrics."""
    run = load_one(directory)
    table = learning_table(run)
    assert table is not None
    row = dict(zip(table.header, table.rows[0], strict=True))
    for column, metric in (("... by theory", "bias_predicted"), ("Mean model from the optimum", "bias")):
        assert float(row[column]) == pytest.approx(run.metrics[f"learning.fedavg.{metric}"], abs=1e-3)


def test_the_chart_shows_the_mean_model(directory: Path) -> None:
    """Dotted levels, told in a note; drawn without complaint."""
    from matplotlib.figure import Figure

    chart = training_chart(load_one(directory), "distance")
    assert isinstance(chart, Chart)
    assert chart.finding.startswith("Lines: the model of each round. Dotted: the mean model over the last half")
    figure = Figure()
    axes = figure.subplots()
    chart.draw(axes)
    level = load_one(directory).metrics["learning.fedavg.bias"]
    assert any((np.asarray(line.get_ydata()) == level).all() for line in axes.get_lines())
