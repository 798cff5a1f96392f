"""The data behind the charts of devices and time: hours of the day, and clients that could be selected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.pages.charts.availability import eligible_chart, local_chart, sampled
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario import Scenario

from .runs import GROUPS, SCENARIO, SIZE, changed

DAY = 86_400.0


@pytest.fixture(scope="module")
def run(written: Path) -> Run:
    return load_one(written)


def with_scenario(run: Run, simulated_s: float = DAY, **changes: Any) -> Run:
    scenario = Scenario.model_validate(SCENARIO | {"start": "2026-01-05T00:00:00Z"} | changes)
    return replace(run, scenario=scenario, simulated_s=simulated_s)


def test_participation_stands_beside_availability_by_local_hour(run: Run) -> None:
    """Sessions that begin at 1:00 in UTC do so at 2:00 in Berlin; those of an incomplete day are left out."""
    starts = {"time_zone": ["UTC", "Europe/Berlin", "UTC"], "slot": [4, 4, 96 + 8], "len": [10, 30, 99]}
    hours = {f"population.available_share.local.{hour:02d}": 0.1 + 0.02 * hour for hour in range(24)}
    given = changed(run, metrics={**run.metrics, **hours})
    given = replace(given, series={**given.series, "starts": pl.DataFrame(starts)})
    chart = local_chart(with_scenario(given, 1.5 * DAY))
    assert chart is not None
    axes = Figure().subplots()
    chart.draw(axes)
    counted, during = (np.asarray(line.get_xdata()) for line in axes.get_lines())
    np.testing.assert_array_equal(counted, np.arange(24))  # the gauges count on the hour
    np.testing.assert_array_equal(during, np.arange(24) + 0.5)
    available, begun = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    np.testing.assert_allclose(available, (0.1 + 0.02 * np.arange(24)) / 0.33)
    np.testing.assert_allclose(begun, 24 / 40 * np.where(np.arange(24) == 1, 10, np.where(np.arange(24) == 2, 30, 0)))
    assert local_chart(with_scenario(given, 0.5 * DAY)) is None


def test_eligible_clients_are_those_of_all_groups(run: Run) -> None:
    chart = eligible_chart(run)
    assert chart is not None
    axes = Figure().subplots()
    chart.draw(axes)
    available, eligible, wanted = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    np.testing.assert_array_equal(available[:2], [GROUPS * (SIZE - 1), GROUPS * SIZE])
    np.testing.assert_array_equal(eligible[:2], [GROUPS * (SIZE - 2), GROUPS * (SIZE - 1)])
    assert wanted[0] == SIZE


@pytest.mark.parametrize(("most", "said"), [(40, True), (None, False), (10**6, False)])
def test_charts_say_that_the_gauges_looked_at_a_sample(run: Run, most: int | None, said: bool) -> None:
    some = with_scenario(run, run.simulated_s, records={"gauge_sample": most})
    notes = (f"Counted among {most} evenly spaced clients, and scaled up to all.",) if said else ()
    assert sampled(some) == notes
    chart = eligible_chart(some)
    assert chart is not None
    assert tuple(note for note in chart.notes if "evenly spaced" in note) == notes
