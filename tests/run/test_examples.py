"""The examples that charts show are what the log and the transitions say, and chosen as they say."""

import numpy as np
import polars as pl
import pytest

from fedsim.common.instants import DAY_S
from fedsim.pages.charts.timelines import round_chart, week_chart
from fedsim.run.run import Run
from fedsim.run.simulate import simulate
from tests.conftest import Load

PHONES = "{devices: 12, availability: habits, session: {train: {kind: lognormal, median: 60s, sigma: 1}}%s}"
SERVER = "server={cohort: 2, over_select: 1.5, deadline: 90s, pause: 10m}"


@pytest.fixture
def run(small: Load) -> Run:
    """Return a run of two days whose devices rest by rounds and by the clock."""
    population = f"population=[{PHONES % ', separation: 2, cooldown: 3h'}]"
    return simulate(small("stop={duration: 2d}", population, SERVER, "records={transitions: %s}" % [*range(12)]))


def test_the_round_is_one_of_median_length_with_its_sessions(run: Run) -> None:
    found = run.series["round"]
    (number,) = found["round"].unique()
    whole = run.rounds.filter(pl.col("closed_s").is_finite(), pl.col("selected") > 0)
    lengths = whole.select("round", length=pl.col("closed_s") - pl.col("opened_s")).sort("length")
    assert lengths["length"][(len(lengths) - 1) // 2] == lengths.filter(round=number)["length"].item()
    own = run.participations.filter(round=number).sort("ended_s")
    assert found["client"].sort().to_list() == own["client"].sort().to_list()
    assert found["ended_s"].to_list() == own["ended_s"].to_list()
    chart = round_chart(run)
    assert chart is not None
    assert chart.table is not None
    assert f"Round {number}, of median length" in chart.finding
    assert [row[3] for row in chart.table.rows] == found["outcome"].to_list()


def test_the_week_is_that_of_the_log_and_of_the_transitions(run: Run) -> None:
    week = run.series["week"]
    (client,) = week["client"].unique()
    changes = run.transitions
    assert changes is not None
    for condition in ("charging", "network", "idle"):
        own, rows = changes.filter(client=client, condition=condition), week.filter(what=condition)
        assert rows["start_s"].to_list() == own.filter("on")["time_s"].to_list()
        ends = [*own.filter(~pl.col("on"))["time_s"], run.simulated_s]
        assert rows["end_s"].to_list() == ends[: len(rows)]
    sessions = run.participations.filter(client=client)
    assert week.filter(what="session")["start_s"].to_list() == sessions["selected_s"].to_list()
    rests = week.filter(what="cool-down").sort("start_s")
    assert rests["start_s"].to_list() == sessions["selected_s"].to_list()
    for start, end, number in zip(rests["start_s"], rests["end_s"], sessions["round"], strict=True):
        assert min(start + 3 * 3600, run.simulated_s) <= end
        assert not ((sessions["selected_s"] > start) & (sessions["selected_s"] < end)).any()
        assert (
            end >= run.rounds.filter(round=number + 3)["opened_s"].to_list()[0]
            if number + 3 < len(run.rounds)
            else True
        )
    chart = week_chart(run)
    assert chart is not None
    assert f"Client {client}, whose available time is the median" in chart.finding


def test_the_device_has_the_median_of_the_available_times(run: Run) -> None:
    changes = run.transitions
    assert changes is not None
    minutes = np.arange(0, run.simulated_s, 60.0)
    there = []
    for client in range(12):
        held = np.ones(len(minutes), dtype=bool)
        for condition in ("charging", "network", "idle"):
            own = changes.filter(client=client, condition=condition)
            if own.is_empty():
                held[:] = False
                continue
            at = np.searchsorted(own["time_s"].to_numpy(), minutes, side="right") - 1
            held &= (at >= 0) & own["on"].to_numpy()[np.maximum(at, 0)]
        there.append(held.mean())
    (client,) = run.series["week"]["client"].unique()
    assert abs(there[client] - sorted(there)[6]) < 0.01


@pytest.mark.parametrize(
    "others", [("stop.rounds=20",), ("stop.rounds=20", "server={mode: buffered, buffer: 2, concurrency: 4}")]
)
def test_devices_that_are_always_there_have_no_week(small: Load, others: tuple[str, ...]) -> None:
    assert "week" not in simulate(small(*others)).series


def test_what_is_the_same_for_all_is_not_drawn(small: Load) -> None:
    assert round_chart(simulate(small("stop.rounds=20"))) is None


def test_a_week_is_no_longer_than_seven_days(small: Load) -> None:
    found = simulate(small("stop={duration: 9d}", f"population=[{PHONES % ''}]", "server.cohort=1", "server.pause=8h"))
    assert found.series["week"]["end_s"].max() <= 7 * DAY_S  # type: ignore[operator]


def test_a_device_whom_nobody_selects_has_its_week_too(small: Load) -> None:
    never = "population=[{devices: 3, availability: habits}]"
    found = simulate(
        small(
            "stop={duration: 2d}", never, "server={cohort: 3, shortage: skip, pause: 5d}", "start=2026-01-05T12:00:00Z"
        )
    )
    assert found.participations.is_empty()
    assert set(found.series["week"]["what"]) == {"charging", "network", "idle"}
