"""The chart of convergence."""

import numpy as np
import polars as pl

from fedsim.report.charts.convergence import ConvergenceChart, convergence_data

TABLE = pl.DataFrame(
    {
        "separation": [5, 5, 5, 2, 2, 2],
        "round": [0, 1, 2, 0, 1, 2],
        "tv": [0.5, 0.25, 1e-9, 0.1, 0.01, 0.0],
        "noise_floor": [None, None, None, 0.0, 0.004, 0.004],
    }
)


def test_one_curve_for_each_separation_in_the_order_of_the_scenario() -> None:
    first, second = convergence_data(TABLE)
    assert (first.separation, second.separation) == (5, 2)
    np.testing.assert_array_equal(first.tv, [0.5, 0.25, 1e-9])
    assert first.noise_floor is None
    np.testing.assert_array_equal(second.noise_floor, [0.0, 0.004, 0.004])


def test_the_chart_says_what_it_is_not() -> None:
    chart, data = ConvergenceChart(), convergence_data(TABLE)
    assert "not of the chain's state" in chart.notes(data)[0]
    assert "noise" in chart.notes(data)[1]
    assert chart.table(data).header == ("Round", "R = 5", "R = 2")
    assert "at R = 5 from 0.5" in chart.description(data)
