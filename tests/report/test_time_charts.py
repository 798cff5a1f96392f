"""The data behind the charts of devices and time: hours, shortages, coverage, gaps, groups, timelines."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.findings.finished_run import FinishedRun, read_run
from fedsim.findings.formatting import count
from fedsim.report.charts import Absent, Chart, chart_of
from fedsim.report.charts.availability import (
    ZONES,
    AvailabilityChart,
    Eligible,
    EligibleChart,
    HourlyAvailability,
    availability_data,
    sampled,
    shortages,
)
from fedsim.report.charts.gaps import Coverage, CoverageChart, GapChart, Gaps
from fedsim.report.charts.groups import GroupChart
from fedsim.report.charts.learning import LearningChart, LossOverTime, curves, unit_of
from fedsim.report.charts.timeline import Timeline, TimelineChart
from fedsim.scenario import Scenario

from .runs import GROUPS, SCENARIO, SEPARATION, SIZE

DAY = 86_400.0


@pytest.fixture(scope="module")
def run(written: Path) -> FinishedRun:
    return read_run(written)


def with_scenario(run: FinishedRun, simulated_s: float = DAY, **changes: Any) -> FinishedRun:
    scenario = Scenario.model_validate(SCENARIO | {"start": "2026-01-05T00:00:00Z"} | changes)
    return replace(run, scenario=scenario, manifest={"simulated_s": simulated_s})


def with_taken(run: FinishedRun, **changes: Any) -> FinishedRun:
    return replace(run, gathered=replace(run.gathered, **changes))


def two_groups(run: FinishedRun) -> FinishedRun:
    clients = run.clients.with_columns(group=pl.when(pl.col("client") < 60).then(pl.lit("a")).otherwise(pl.lit("b")))
    return replace(run, clients=clients)


def test_availability_is_by_the_hour_of_the_one_zone_there_is(run: FinishedRun) -> None:
    """Berlin is an hour ahead of UTC in January: half of the devices at UTC midnight are half of them at one."""
    gauges = pl.DataFrame(
        {"time_s": [0.0, 3600.0], "time_zone": "Europe/Berlin", "available": [50, 25], "eligible": 0, "in_session": 0}
    )
    starts = pl.DataFrame({"time_zone": "Europe/Berlin", "slot": [0, 5], "len": [12, 4]})
    one = replace(run, clients=run.clients.with_columns(time_zone=pl.lit("Europe/Berlin")), gauges=gauges)
    data = availability_data(with_scenario(with_taken(one, starts=starts), 7200.0))
    assert isinstance(data, HourlyAvailability)
    assert data.clock == "Europe/Berlin"
    (zone,) = data.zones
    assert (zone.share[1], zone.share[2]) == (0.5, 0.25)
    assert np.isnan(zone.share[[0, *range(3, 24)]]).all()
    assert (zone.sessions[1], zone.sessions[2]) == (12, 4)
    assert np.isnan(zone.sessions[0])


def test_several_zones_are_shown_by_hours_of_utc(run: FinishedRun) -> None:
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
    data = availability_data(replace(run, clients=run.clients.with_columns(time_zone=zone), gauges=gauges))
    assert isinstance(data, HourlyAvailability)
    assert data.clock == "UTC"
    assert [(zone.name, zone.devices) for zone in data.zones] == [("Asia/Kolkata", 60), ("UTC", 40)]
    np.testing.assert_array_equal(data.zones[0].share[:2], [0.5, 0.25])
    np.testing.assert_array_equal(data.zones[1].share[:2], [0, 0.5])


def test_sessions_are_averaged_over_the_days_of_the_run(run: FinishedRun) -> None:
    """Over a day and a half, hours before noon were there twice."""
    starts = pl.DataFrame({"time_zone": "UTC", "slot": [4, 100, 60], "len": [6, 2, 5]})
    data = availability_data(with_scenario(with_taken(run, starts=starts), 1.5 * DAY))
    assert isinstance(data, HourlyAvailability)
    assert (data.zones[0].sessions[1], data.zones[0].sessions[15]) == (4, 5)


def test_availability_says_why_it_is_not_shown(run: FinishedRun) -> None:
    everyone = replace(run, gauges=run.gauges.with_columns(available=SIZE))  # type: ignore[union-attr]
    for spoilt, reason in ((replace(run, gauges=None), "records.gauges"), (everyone, "available all the time")):
        chart = chart_of("availability", AvailabilityChart(), spoilt)
        assert isinstance(chart, Absent)
        assert reason in chart.reason


def test_zones_beyond_the_largest_are_counted(run: FinishedRun) -> None:
    zones = ["Africa/Cairo", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris", "America/Lima", "Asia/Dubai", "Asia/Seoul"]
    living = run.clients.with_columns(time_zone=pl.Series(zones).gather(pl.int_range(100, eager=True) % 7))
    data = availability_data(replace(run, clients=living))
    assert isinstance(data, HourlyAvailability)
    assert (len(data.zones), data.omitted) == (ZONES, 1)


def with_rounds(run: FinishedRun, **columns: list[float | int | None]) -> FinishedRun:
    rounds = pl.DataFrame(columns).with_columns(round=pl.int_range(pl.len()), outcome=pl.lit("target"))
    return replace(run, rounds=rounds)


def test_shortages_are_where_a_round_waits_or_goes_on_with_too_few(run: FinishedRun) -> None:
    """Rounds: at once; after 100 s of waiting; skipped; with 3 of 5; and one that waits where the second left off."""
    short = with_rounds(
        run,
        opened_s=[0.0, 1000.0, 2000.0, 3000.0, 1100.0],
        selected_s=[0.0, 1100.0, None, 3000.0, 1200.0],
        closed_s=[90.0, 1300.0, 2050.0, 3090.0, 1300.0],
        selected=[5, 5, 0, 3, 5],
    )
    server = {"cohort": 5}
    starts, ends, rounds = shortages(with_scenario(short, 4000.0, server=server))
    np.testing.assert_array_equal(starts, [1000, 2000, 3000])
    np.testing.assert_array_equal(ends, [1200, 2050, 3090])
    assert rounds == 4
    data = EligibleChart().prepare(with_scenario(short, 4000.0, server=server))
    assert isinstance(data, Eligible)
    assert data.share == pytest.approx(340 / 4000)
    assert data.wanted == 5


def test_random_numbers_of_clients_are_no_shortage(run: FinishedRun) -> None:
    few = with_rounds(run, opened_s=[0.0], selected_s=[0.0], closed_s=[90.0], selected=[3])
    server = {"cohort": 5, "selection": {"kind": "bernoulli"}}
    assert shortages(with_scenario(few, server=server))[2] == 0


def test_eligible_clients_are_those_of_all_groups(run: FinishedRun) -> None:
    data = EligibleChart().prepare(run)
    assert isinstance(data, Eligible)
    assert data.unit == "hours"
    assert data.available.mean[0] == GROUPS * (SIZE - 1)
    assert data.eligible.mean[1] == GROUPS * (SIZE - 1)
    assert data.longest == pytest.approx(10)


def test_coverage_rises_to_those_that_ever_took_part(run: FinishedRun) -> None:
    firsts = pl.DataFrame({"first_s": [0.0, 0.0, 3600.0, 9 * 3600.0]})
    data = CoverageChart().prepare(with_taken(run, firsts=firsts))
    assert isinstance(data, Coverage)
    np.testing.assert_allclose(data.times * data.size, [0, 0, 0, 3600, 32400, 36000])
    np.testing.assert_allclose(data.share, [0, 0.01, 0.02, 0.03, 0.04, 0.04])
    assert data.reached == ()
    assert data.shown == data.longest


@given(st.lists(st.floats(0, 36_000), min_size=1, max_size=100))
def test_coverage_tells_when_half_had_a_turn(run: FinishedRun, times: list[float]) -> None:
    """Against counting: the time of reaching half is the first at which half of all clients have started."""
    data = CoverageChart().prepare(with_taken(run, firsts=pl.DataFrame({"first_s": sorted(times)})))
    assert isinstance(data, Coverage)
    assert data.share[-1] == pytest.approx(len(times) / 100)
    assert (np.diff(data.share) >= 0).all()
    half = dict(data.reached).get(0.5)
    assert (half is None) == (len(times) < 50)
    if half is not None:
        assert sum(time <= half for time in times) >= 50 > sum(time < half for time in times)


def test_an_early_end_of_newcomers_ends_the_axis(run: FinishedRun) -> None:
    data = CoverageChart().prepare(with_taken(run, firsts=pl.DataFrame({"first_s": [0.0, 600.0]})))
    assert isinstance(data, Coverage)
    assert data.shown * data.size == pytest.approx(900)


def test_gaps_of_one_separation_are_a_histogram_of_all(run: FinishedRun) -> None:
    data = GapChart().prepare(run)
    assert isinstance(data, Gaps)
    assert data.bars is not None
    bounds, share = data.bars
    assert data.first[0] == SEPARATION
    assert bounds[0] == data.least[0] == SEPARATION + 1
    assert share.sum() == pytest.approx(1)
    assert data.size[0] == run.gathered.gaps["len"].sum()


@pytest.mark.parametrize(("most", "said"), [(40, True), (None, False), (10**6, False)])
def test_charts_say_that_the_gauges_looked_at_a_sample(run: FinishedRun, most: int | None, said: bool) -> None:
    some = with_scenario(run, run.simulated_s, records={"gauge_sample": most})
    notes = (f"Counted among {most} evenly spaced clients, and scaled up to all.",) if said else ()
    assert sampled(some) == notes
    chart = chart_of("eligible", EligibleChart(), some)
    assert isinstance(chart, Chart)
    assert tuple(note for note in chart.notes if "evenly spaced" in note) == notes


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_every_gap_is_in_a_bar(run: FinishedRun, gaps: list[int]) -> None:
    table = pl.DataFrame({"gap": gaps, "separation": 0}).group_by("separation", "gap").len().sort("separation", "gap")
    data = GapChart().prepare(with_taken(run, gaps=table))
    if len(set(gaps)) == 1:
        assert data == f"Whoever came back did so after exactly {count(gaps[0], 'round')}, every time."
        return
    assert isinstance(data, Gaps)
    assert data.bars is not None
    bounds, share = data.bars
    assert share.sum() == pytest.approx(1)
    assert len(share) <= 40
    assert data.median[0] == np.quantile(gaps, 0.5, method="inverted_cdf")
    assert (np.diff(bounds) > 0).all()


def test_gaps_of_several_separations_are_told_by_separation(run: FinishedRun) -> None:
    table = pl.DataFrame({"separation": [2, 2, 7, 7, 7], "gap": [3, 9, 8, 20, 30], "len": [10, 10, 1, 18, 1]})
    data = GapChart().prepare(with_taken(run, gaps=table))
    assert isinstance(data, Gaps)
    np.testing.assert_array_equal(data.first, [2, 7])
    np.testing.assert_array_equal(data.least, [3, 8])
    np.testing.assert_array_equal(data.median, [3, 20])
    np.testing.assert_array_equal(data.size, [20, 20])
    many = pl.DataFrame({"separation": range(100), "gap": range(1, 101), "len": [1] * 100})
    gathered = GapChart().prepare(with_taken(run, gaps=many))
    assert isinstance(gathered, Gaps)
    assert len(gathered.first) == 30
    assert (gathered.size.sum(), gathered.last[-1]) == (100, 99)


def test_groups_are_in_multiples_of_their_share(run: FinishedRun) -> None:
    data = GroupChart().prepare(two_groups(run))
    assert isinstance(data, pl.DataFrame)
    assert data["group"].to_list() == ["a", "b"]
    assert data["measured"].sum() == pytest.approx(1)
    assert data["frequency"].dot(pl.Series([0.6, 0.4])) == pytest.approx(1)
    assert data["predicted"].dot(pl.Series([0.6, 0.4])) == pytest.approx(1)
    assert isinstance(GroupChart().prepare(replace(run, clients=run.clients.with_columns(group=pl.lit("one")))), str)


def test_the_timeline_pairs_beginnings_with_ends(run: FinishedRun) -> None:
    data = TimelineChart().prepare(run)
    assert isinstance(data, Timeline)
    assert (data.unit, data.whole, data.longest) == ("hours", True, 10)
    zero, seven = data.devices
    assert (zero.client, seven.client) == (0, 7)
    ((name, charging),) = zero.conditions
    assert name == "charging"
    np.testing.assert_array_equal(charging[0], [0, 1])
    np.testing.assert_array_equal(charging[1], [0.5, 10])
    np.testing.assert_array_equal(seven.conditions[0][1][1], [10])


def test_cool_down_lasts_until_the_round_that_may_select_again(run: FinishedRun) -> None:
    """Client 0 is of group 0; a round opens every 90 s, and R = 8 ends with the opening of the ninth one after."""
    data = TimelineChart().prepare(run)
    assert isinstance(data, Timeline)
    device = data.devices[0]
    rounds = run.gathered.chosen.filter(client=0)
    assert len(device.sessions[0]) == len(rounds)
    expected = np.minimum((rounds["round"].to_numpy() + 1 + SEPARATION) * 90.0, 36_000.0) / 3600
    np.testing.assert_allclose(device.cooling[1], expected)
    np.testing.assert_allclose(device.cooling[0], rounds["ended_s"] / 3600)


def test_wall_clock_cool_downs_count_too(run: FinishedRun) -> None:
    chosen = pl.DataFrame(
        {
            "client": [0, 0],
            "round": [0, 5],
            "selected_s": [0.0, 7200.0],
            "ended_s": [600.0, 7300.0],
            "outcome": ["reported", "dropped"],
        }
    )
    free = run.clients.with_columns(separation=0, cooldown_s=3600.0)
    rested = replace(with_taken(run, chosen=chosen), clients=free)
    data = TimelineChart().prepare(with_scenario(rested, 36_000.0, server={"cohort": 5, "cooldown_from": "reported"}))
    assert isinstance(data, Timeline)
    np.testing.assert_allclose(data.devices[0].cooling[0], [600 / 3600])
    np.testing.assert_allclose(data.devices[0].cooling[1], [4200 / 3600])


def test_losses_over_simulated_time_are_those_over_rounds(run: FinishedRun) -> None:
    view = LossOverTime()
    over_time, over_rounds = curves(run, view)[0], curves(run, LearningChart())[0]
    assert unit_of(run, view) == (3600.0, "hours")
    np.testing.assert_allclose(over_time.points.x, 90 / 3600 * over_rounds.points.x)
    np.testing.assert_array_equal(over_time.points.mean, over_rounds.points.mean)
