"""The chart of convergence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from fedsim.pages.bias import FORGOTTEN
from fedsim.pages.charts.distance import LEAST, convergence_chart
from fedsim.run.load import load_one

DATA = pl.DataFrame(
    {
        "separation": [5, 5, 5, 2, 2, 2],
        "round": [0, 1, 2] * 2,
        "tv": [0.5, 0.25, 1e-9, 0.1, 0.01, 0.0],
        "noise_floor": [None, None, None, 0.0, 0.004, 0.004],
    }
)


def test_one_curve_for_each_separation_in_the_order_of_the_scenario(written: Path) -> None:
    chart = convergence_chart(replace(load_one(written), convergence=DATA))
    assert chart is not None
    axes = Figure().subplots()
    chart.draw(axes)
    floor, first, second, limit = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    np.testing.assert_allclose(first, [50, 25, 100 * LEAST])
    np.testing.assert_allclose(second, [10, 1, 100 * LEAST])
    np.testing.assert_allclose(floor, [np.nan, 0.4, 0.4])
    assert set(limit) == {100 * FORGOTTEN}
    assert "not of the chain's state" in chart.notes[0]
    assert "noise" in chart.finding
    plain = convergence_chart(replace(load_one(written), convergence=DATA.with_columns(noise_floor=None)))
    assert plain is not None
    assert plain.finding == ""
    assert chart.table is not None
    assert chart.table.header == ("Round", "R = 5", "R = 2")
    assert "“R = 5” from 50" in chart.description
    assert convergence_chart(replace(load_one(written), convergence=None)) is None
