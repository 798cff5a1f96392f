"""The data behind the charts of devices and time: hours and shortages."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.pages.charts import Chart
from fedsim.pages.charts.availability import ZONES, eligible_chart, hour_chart, hourly, lacking, sampled
from fedsim.pages.charts.marks import clock_axis, joined
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario import Scenario

from .runs import GROUPS, SCENARIO, SIZE

DAY = 86_400.0


@pytest.fixture(scope="module")
def run(written: Path) -> Run:
    return load_one(written)


def with_scenario(run: Run, simulated_s: float = DAY, **changes: Any) -> Run:
    scenario = Scenario.model_validate(SCENARIO | {"start": "2026-01-05T00:00:00Z"} | changes)
    return replace(run, scenario=scenario, simulated_s=simulated_s)


def with_taken(run: Run, **changes: Any) -> Run:
    return replace(run, series={**run.series, **changes})


def test_availability_is_by_the_hour_of_the_one_zone_there_is(run: Run) -> None:
    """Berlin is an hour ahead of UTC in January: half of the devices at UTC midnight are half of them at one."""
    gauges = pl.DataFrame(
        {"time_s": [0.0, 3600.0], "time_zone": "Europe/Berlin", "available": [50, 25], "eligible": 0, "in_session": 0}
    )
    starts = pl.DataFrame({"time_zone": "Europe/Berlin", "slot": [0, 5], "len": [12, 4]})
    one = replace(run, clients=run.clients.with_columns(time_zone=pl.lit("Europe/Berlin")), gauges=gauges)
    clock, zones = hourly(with_scenario(with_taken(one, starts=starts), 7200.0))
    share, sessions = zones["Europe/Berlin"]
    assert clock == "Europe/Berlin"
    assert (share[1], share[2]) == (0.5, 0.25)
    assert np.isnan(share[[0, *range(3, 24)]]).all()
    assert (sessions[1], sessions[2]) == (12, 4)
    assert np.isnan(sessions[0])


def test_several_zones_are_shown_by_hours_of_utc(run: Run) -> None:
    gauges = pl.DataFrame(
        {
            "time_s": [0.0, 0.0, 3600.0, 3600.0],
            "time_zone": ["Asia/Kolkata", "UTC"] * 2,
            "available": [30, 0, 15, 20],
            "eligible": [0] * 4,
            "in_session": [0] * 4,
        }
    )
    zone = pl.when(pl.col("client") < 60).then(pl.lit("Asia/Kolkata")).otherwise(pl.lit("UTC"))
    clock, zones = hourly(replace(run, clients=run.clients.with_columns(time_zone=zone), gauges=gauges))
    assert clock == "UTC"
    assert list(zones) == ["Asia/Kolkata", "UTC"]
    np.testing.assert_array_equal([share[:2] for share, _ in zones.values()], [[0.5, 0.25], [0, 0.5]])


def test_sessions_are_averaged_over_the_days_of_the_run(run: Run) -> None:
    """Over a day and a half, hours before noon were there twice."""
    starts = pl.DataFrame({"time_zone": "UTC", "slot": [4, 100, 60], "len": [6, 2, 5]})
    ((_, sessions),) = hourly(with_scenario(with_taken(run, starts=starts), 1.5 * DAY))[1].values()
    assert (sessions[1], sessions[15]) == (4, 5)


def test_availability_is_left_out_where_nothing_is_to_be_seen(run: Run) -> None:
    everyone = replace(run, gauges=run.gauges.with_columns(available=SIZE))
    assert isinstance(hour_chart(run), Chart)
    assert hour_chart(everyone) is hour_chart(replace(run, gauges=run.gauges.clear())) is None
    group = {"devices": 100, "availability": {"kind": "renewal", "on": "1h", "off": "1h"}}
    assert hour_chart(replace(with_scenario(run, population=[group]), gauges=run.gauges.clear())) is None


def test_zones_beyond_the_largest_are_counted(run: Run) -> None:
    zones = ["Africa/Cairo", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris", "America/Lima", "Asia/Dubai", "Asia/Seoul"]
    living = run.clients.with_columns(time_zone=pl.Series(zones).gather(pl.int_range(100, eager=True) % 7))
    assert len(hourly(replace(run, clients=living))[1]) == ZONES
    assert run.gauges is not None
    gauges = run.gauges.with_columns(time_zone=pl.lit(zones[0]))
    chart = hour_chart(replace(run, clients=living, gauges=gauges))
    assert isinstance(chart, Chart)
    assert chart.notes[-1] == f"The {ZONES} time zones with the most devices; 1 more are left out."


def with_rounds(run: Run, **columns: list[float | int | None]) -> Run:
    rounds = pl.DataFrame(columns).with_columns(round=pl.int_range(pl.len()), outcome=pl.lit("target"))
    return replace(run, rounds=rounds)


def test_shortages_are_where_a_round_waits_or_goes_on_with_too_few(run: Run) -> None:
    """Rounds: at once; after 100 s of waiting; skipped; with 3 of 5; and one that waits where the second left off."""
    short = with_rounds(
        run,
        opened_s=[0.0, 1000.0, 2000.0, 3000.0, 1100.0],
        selected_s=[0.0, 1100.0, None, 3000.0, 1200.0],
        closed_s=[90.0, 1300.0, 2050.0, 3090.0, 1300.0],
        selected=[5, 5, 0, 3, 5],
    )
    short = with_scenario(short, 4000.0, server={"cohort": 5})
    starts, ends = lacking(short)
    np.testing.assert_array_equal(starts, [1000, 1100, 2000, 3000])
    np.testing.assert_array_equal(ends, [1100, 1200, 2050, 3090])
    np.testing.assert_array_equal(joined(starts, ends), [[1000, 2000, 3000], [1200, 2050, 3090]])
    chart = eligible_chart(short)
    assert chart is not None
    assert "4 rounds waited, were skipped" in chart.notes[1]
    assert "8.5\N{NARROW NO-BREAK SPACE}% of the simulated time" in chart.notes[1]


def test_random_numbers_of_clients_are_no_shortage(run: Run) -> None:
    few = with_rounds(run, opened_s=[0.0], selected_s=[0.0], closed_s=[90.0], selected=[3])
    server = {"cohort": 5, "selection": {"kind": "bernoulli"}}
    assert not len(lacking(with_scenario(few, server=server))[0])


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


def test_a_clock_shows_whole_hours_of_the_zone_over_the_change_to_summer() -> None:
    """Europe/Berlin goes from 02:00 to 03:00 in the night to 29 March 2026: that day has no second hour."""
    axes = Figure().subplots()
    start = datetime(2026, 3, 28, 11, 30, tzinfo=UTC)
    assert clock_axis(axes, start, "Europe/Berlin", 86_400.0, 3_600.0) == "time of day (Europe/Berlin)"
    places = axes.xaxis.get_majorticklocs()
    assert list(places) == [5.5, 11.5, 16.5, 22.5]
    labels = axes.xaxis.get_major_formatter().format_ticks(list(places))
    assert labels == ["18", "00\nSun", "06", "12"]
    assert clock_axis(axes, start, "UTC", 3_600.0, 60.0) is None
    assert clock_axis(axes, start, "UTC", 30 * 86_400.0, 86_400.0) is None
