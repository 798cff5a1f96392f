"""The data behind the charts of devices and time: hours of the day, and clients that could be selected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.pages.charts import Chart
from fedsim.pages.charts.availability import ZONES, eligible_chart, hour_chart, hourly, local_chart, sampled
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


def test_availability_is_by_the_hour_of_the_one_zone_there_is(run: Run) -> None:
    """Berlin is an hour ahead of UTC in January: half of the devices at UTC midnight are half of them at one."""
    gauges = pl.DataFrame({"time_s": [0.0, 3600.0], "time_zone": "Europe/Berlin", "available": [50, 25]})
    clients = run.clients.with_columns(time_zone=pl.lit("Europe/Berlin"))
    share = hourly(with_scenario(replace(run, clients=clients, gauges=gauges), 7200.0), "available")
    assert (share[1], share[2]) == (0.5, 0.25)
    assert np.isnan(share[[0, *range(3, 24)]]).all()


def test_several_zones_are_shown_by_hours_of_utc(run: Run) -> None:
    zones = ["Asia/Kolkata", "UTC"]
    columns = {"time_s": [0.0, 0.0, 3600.0, 3600.0], "time_zone": zones * 2, "available": [30, 0, 15, 20]}
    zone = pl.when(pl.col("client") < 60).then(pl.lit("Asia/Kolkata")).otherwise(pl.lit("UTC"))
    living = replace(run, clients=run.clients.with_columns(time_zone=zone), gauges=pl.DataFrame(columns))
    np.testing.assert_array_equal([hourly(living, "available", name)[:2] for name in zones], [[0.5, 0.25], [0, 0.5]])
    np.testing.assert_allclose(hourly(living, "available")[:2], [0.3, 0.35])


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
    available, begun = (np.asarray(line.get_ydata()) for line in axes.get_lines())
    np.testing.assert_allclose(available, (0.1 + 0.02 * np.arange(24)) / 0.33)
    np.testing.assert_allclose(begun, 24 / 40 * np.where(np.arange(24) == 1, 10, np.where(np.arange(24) == 2, 30, 0)))
    assert local_chart(with_scenario(given, 0.5 * DAY)) is None


def test_availability_is_left_out_where_nothing_is_to_be_seen(run: Run) -> None:
    everyone = replace(run, gauges=run.gauges.with_columns(available=SIZE))
    assert isinstance(hour_chart(run), Chart)
    assert hour_chart(everyone) is hour_chart(replace(run, gauges=run.gauges.clear())) is None
    group = {"devices": 100, "availability": {"kind": "renewal", "on": "1h", "off": "1h"}}
    assert hour_chart(replace(with_scenario(run, population=[group]), gauges=run.gauges.clear())) is None


def test_zones_beyond_the_largest_are_counted(run: Run) -> None:
    zones = ["Africa/Cairo", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris", "America/Lima", "Asia/Dubai", "Asia/Seoul"]
    living = run.clients.with_columns(time_zone=pl.Series(zones).gather(pl.int_range(100, eager=True) % 7))
    gauges = run.gauges.with_columns(time_zone=pl.lit(zones[0]))
    chart = hour_chart(replace(run, clients=living, gauges=gauges))
    assert isinstance(chart, Chart)
    assert chart.notes[-1] == f"The {ZONES} time zones with the most devices; 1 more are left out."


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
