"""Unevenness over windows of rounds: its definition, what is known of it in closed form, and the recommended length."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim import simulate
from fedsim.common.arrays import Floats
from fedsim.measure.unevenness import recommended_interval, unevenness
from fedsim.scenario import Scenario
from tests.command import fedsim
from tests.conftest import Write

QUICK = ["engine=vectorized", "records.gauges=null"]
CYCLIC = "stop: {rounds: 1000}\npopulation: [{devices: 111}]\nserver: {cohort: 3, selection: cyclic, pause: 10m}\n"
CONTINENTS = """\
stop: {rounds: 3000}
population:
  - {name: a, devices: 100, availability: {kind: habits}, time_zone: UTC}
  - {name: b, devices: 100, availability: {kind: habits}, time_zone: America/New_York}
  - {name: c, devices: 100, availability: {kind: habits}, time_zone: Asia/Tokyo}
server: {cohort: 10, pause: 10m, selection: uniform}
"""


def a_log(seed: int, rounds: int = 60, clients: int = 7) -> pl.DataFrame:
    """Return participations of a buffered server: some dropped, some stale by several versions, empty versions too."""
    draws = np.random.default_rng(seed)
    number = np.sort(draws.integers(0, rounds, 3 * rounds))
    return pl.DataFrame(
        {
            "round": number,
            "client": draws.integers(0, clients, len(number)),
            "outcome": draws.choice(["reported", "reported", "dropped"], len(number)),
            "staleness": [None if draws.random() < 0.3 else int(draws.integers(0, 9)) for _ in number],
        },
        schema_overrides={"staleness": pl.Int64},
    )


def shares(log: pl.DataFrame, clients: int) -> Floats:
    """Return q, shape (T, N), of the rounds that took a report: dense, straight from the definition."""
    taken = log.filter(outcome="reported").with_columns(at=pl.col("round") + pl.col("staleness").fill_null(0))
    rows = []
    for at in sorted(set(taken["at"].to_list())):
        counts = np.bincount(taken.filter(at=at)["client"].to_numpy(), minlength=clients)
        rows.append(counts / counts.sum())
    return np.array(rows)


def test_unevenness_is_what_it_is_defined_to_be() -> None:
    """With reports that arrive out of order and rounds that take none."""
    for seed in range(3):
        log, clients, intervals = a_log(seed), 7, [1, 2, 5, 9, 20, 500]
        q = shares(log, clients)
        found = unevenness(log.lazy() if seed else log, clients, intervals)
        assert (found.rounds, found.reports) == (len(q), log.filter(outcome="reported").height)
        assert found.long_run == pytest.approx(np.square(q.mean(axis=0) - 1 / clients).sum())
        for place, interval in enumerate(intervals):
            whole = len(q) // interval
            assert found.windows[place] == whole
            if not whole:
                assert np.isnan(found.values[place])
                assert np.isnan(found.spread[place])
                continue
            means = q[: whole * interval].reshape(whole, interval, clients).mean(axis=1)
            assert found.values[place] == pytest.approx(np.square(means - 1 / clients).sum(axis=1).mean())
            assert found.spread[place] == pytest.approx(np.square(means - means.mean(axis=0)).sum(axis=1).mean())


def test_everyone_in_turn_is_even_over_one_turn(write: Write) -> None:
    result = simulate(Scenario.load(write(CYCLIC), QUICK))
    found = unevenness(result.participations, 111, [1, 36, 37, 38, 74])
    assert found.values[[2, 4]].max() < 1e-20
    assert found.values[[0, 1, 3]].min() > 1e-6
    assert found.values[0] == pytest.approx(1 / 3 - 1 / 111) == found.chance[0]
    assert recommended_interval(result.rounds, result.participations, 111) == 37


def test_uniform_cohorts_are_as_uneven_as_chance_has_it(write: Write) -> None:
    text = "stop: {rounds: 3000}\npopulation: [{devices: 60}]\nserver: {cohort: 4, selection: uniform}\n"
    result = simulate(Scenario.load(write(text), QUICK))
    found = unevenness(result.participations, 60, [1, 3, 10, 30])
    assert found.chance == pytest.approx((1 / 4 - 1 / 60) / np.array([1, 3, 10, 30]))
    assert found.values == pytest.approx(found.chance, rel=0.05)
    assert recommended_interval(result.rounds, result.participations, 60) == 1


def test_windows_should_last_about_a_day_where_participation_follows_the_sun(write: Write) -> None:
    result = simulate(Scenario.load(write(CONTINENTS), QUICK))
    a_day = result.metrics["rounds.per_day"]
    best = recommended_interval(result.rounds, result.participations, 300)
    assert best is not None
    assert 0.8 * a_day <= best <= 1.25 * a_day
    half, day = unevenness(result.participations, 300, [round(a_day / 2), round(a_day)]).spread
    assert half > 2.5 * day  # two independent halves would have 2 times as much


def test_windows_should_last_as_long_as_separation_is_felt(write: Write) -> None:
    """A window of a round or two is more even than chance has it only with the next ones, which lack its clients."""
    text = "stop: {rounds: 2000}\npopulation: [{devices: 100, separation: 8}]\nserver: {cohort: 5}\n"
    result = simulate(Scenario.load(write(text), QUICK))
    best = recommended_interval(result.rounds, result.participations, 100)
    assert best is not None
    assert 8 < best < 40


def test_a_log_can_be_too_short_to_recommend_anything(write: Write) -> None:
    """A turn of everyone takes 37 rounds: five of them are needed."""
    short = simulate(Scenario.load(write(CYCLIC), [*QUICK, "stop.rounds=180"]))
    assert recommended_interval(short.rounds, short.participations, 111) is None
    assert recommended_interval(short.rounds, short.participations.clear(), 111) is None
    assert recommended_interval(short.rounds, short.participations, 1) == 1
    empty = unevenness(short.participations.clear(), 111, [1])
    assert (empty.rounds, empty.reports) == (0, 0)
    assert np.isnan(empty.values[0])
    assert np.isnan(empty.long_run)


def test_a_window_has_a_round_at_least(write: Write) -> None:
    with pytest.raises(ValueError, match="a window has 1 round or more, got 0"):
        unevenness(a_log(0), 7, [0, 2])


def test_a_scenario_may_ask_for_unevenness(write: Write) -> None:
    text = CYCLIC + "metrics: [{kind: unevenness, intervals: [37, 5, 4000]}]\nexpect: [unevenness.37 <= 1e-12]\n"
    metrics = simulate(Scenario.load(write(text), QUICK)).metrics
    assert metrics["unevenness.recommended_interval"] == 37.0
    assert metrics["unevenness.37"] < 1e-20 < metrics["unevenness.5"] < metrics["unevenness.5.chance"]
    assert metrics["unevenness.long_run"] < 1e-6
    assert not {"unevenness.4000", "unevenness.1"} & metrics.keys()
    assert not any(name.startswith("unevenness") for name in simulate(Scenario.load(write(CYCLIC), QUICK)).metrics)
    plain = text.replace("]}]", "], recommend: false}]")
    assert "unevenness.recommended_interval" not in simulate(Scenario.load(write(plain), QUICK)).metrics


def test_unevenness_is_listed_and_its_mistakes_are_told(write: Write) -> None:
    path: Path = write(CYCLIC + "metrics: [unevenness]\n")
    assert [each["name"] for each in json.loads(fedsim("metrics", path, "--json").stdout)][-2:] == [
        "unevenness.long_run",
        "unevenness.recommended_interval",
    ]
    path = write(CYCLIC + "metrics: [{kind: unevenness, intervals: [0]}]\n")
    told = fedsim("validate", path)
    assert told.returncode == 2
    assert "metrics[0].intervals[0]: must be greater than or equal to 1, got 0" in told.stderr
