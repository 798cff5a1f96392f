"""The chart of convergence."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from fedsim.report.charts.distance import LEAST, ConvergenceChart

DATA = {
    "R = 5": pl.DataFrame({"round": [0, 1, 2], "tv": [0.5, 0.25, 1e-9], "noise_floor": [None, None, None]}),
    "R = 2": pl.DataFrame({"round": [0, 1, 2], "tv": [0.1, 0.01, 0.0], "noise_floor": [0.0, 0.004, 0.004]}),
}


def test_one_curve_for_each_separation_in_the_order_of_the_scenario() -> None:
    axes = Figure().subplots()
    ConvergenceChart().draw(DATA, axes)
    first, second, floor = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    np.testing.assert_array_equal(first, [0.5, 0.25, LEAST])
    np.testing.assert_array_equal(second, [0.1, 0.01, LEAST])
    np.testing.assert_array_equal(floor, [np.nan, 0.004, 0.004])


def test_the_chart_says_what_it_is_not() -> None:
    chart = ConvergenceChart()
    law, noise = chart.notes(DATA)
    assert "not of the chain's state" in law
    assert "noise" in noise
    assert chart.table(DATA).header == ("Round", "R = 5", "R = 2")
    assert "at R = 5 from 0.5" in chart.description(DATA)
