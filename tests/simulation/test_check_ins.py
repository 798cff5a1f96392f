"""Devices that check in: who is connected when, by which pace, what that costs in requests, and what is refused."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.availability.population import strata
from fedsim.availability.shocks import availability_of
from fedsim.common.instants import HOUR
from fedsim.common.keyed import Purpose, stream
from fedsim.measure.frequencies import clients_table
from fedsim.measure.metrics import count_of, measure
from fedsim.population import build_population
from fedsim.run.evaluate import setting_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.scaled import scale_down
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.simulation.check_ins import bernoulli_sample, connections_of
from fedsim.theory.prediction import theory_or_why_not


def case(devices: int, server: dict[str, Any], **changes: Any) -> Scenario:
    base = {
        "stop": {"duration": "4h"},
        "population": [{"devices": devices, "session": {"download": "0s", "train": "10s", "upload": "0s"}}],
        "server": {"cohort": 5, "pause": "1m", **server},
        "records": {"gauges": "10m", "eligible": True},
    }
    return Scenario.model_validate(base | changes)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_only_connected_devices_are_selected(engine: str) -> None:
    """A tenth of the devices is connected at any time; wrong once in 16,000 seeds, which are fixed."""
    scenario = case(400, {"check_ins": {"every": "10m", "window": "1m"}}, engine=engine)
    log = simulate_log(scenario, build_population(scenario))
    connections = connections_of(scenario, strata(scenario, build_population(scenario)), 0)
    assert connections is not None
    rows = log.participations.select("client", "selected_s").to_numpy()
    instants = np.rint(1000 * rows[:, 1]).astype(np.int64)
    assert all(
        connections.connected(int(instant))[int(client)] for client, instant in zip(rows[:, 0], instants, strict=True)
    )
    eligible = log.rounds["eligible"].drop_nulls().to_numpy()
    assert abs(eligible.mean() / 400 - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 400)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_round_waits_for_those_who_come(engine: str) -> None:
    """Of 40 devices 24 are connected on average, and 28 are wanted."""
    scenario = case(40, {"cohort": 28, "check_ins": {"every": "10m", "window": "6m"}}, engine=engine)
    log = simulate_log(scenario, build_population(scenario))
    waits = (log.rounds["selected_s"] - log.rounds["opened_s"]).drop_nulls()
    assert max(waits.to_list()) > 0.0
    assert min(log.rounds["eligible"].drop_nulls().to_list()) >= 28


def test_check_ins_a_second_are_measured() -> None:
    scenario = case(400, {"check_ins": {"every": "10m", "window": "1m"}})
    population = build_population(scenario)
    log = simulate_log(scenario, population)
    setting = setting_of(PreparedFederation(scenario, population, strata(scenario, population)))
    counted = count_of(log, setting)
    metrics = measure(log, clients_table(population, counted, None, None), setting, counted)
    assert metrics["check_ins.per_second.mean"] == pytest.approx(400 / 600)
    assert "check-ins" in str(theory_or_why_not(scenario, population))


def test_a_window_of_the_whole_time_changes_nothing() -> None:
    always, plain = case(40, {"check_ins": {"every": "10m", "window": "10m"}}), case(40, {})
    logs = [simulate_log(each, build_population(each)) for each in (always, plain)]
    assert logs[0].participations.equals(logs[1].participations)


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_the_server_steers_the_pace(engine: str) -> None:
    """Of 300 devices that are available half of the time, 30 are wanted.

    Once the server has seen an hour, 30 * 150 / 150 are connected on average. What it saw has an error of a fifth, by
    hour, so the mean of 11 hours has one of 7 %; wrong once in 16,000 seeds, which are fixed.
    """
    scenario = case(
        300,
        {"check_ins": {"wanted": 30, "window": "5m"}},
        engine=engine,
        stop={"duration": "12h"},
        population=[{"devices": 300, "availability": {"kind": "renewal", "on": "1h", "off": "1h"}}],
    )
    log = simulate_log(scenario, build_population(scenario))
    eligible = log.rounds.filter(pl.col("opened_s") >= 3600)["eligible"].drop_nulls().to_numpy()
    assert abs(eligible.mean() / 30 - 1) < 0.28


def test_a_pace_follows_the_day_before() -> None:
    """Devices are there by day alone: from the second day on, as many come by night and by day as are wanted."""
    scenario = case(
        2_000,
        {"check_ins": {"wanted": 50, "window": "10m"}},
        stop={"duration": "4d"},
        population=[{"devices": 2_000, "availability": "habits", "time_zone": "America/Chicago"}],
    )
    population = build_population(scenario)
    devices = strata(scenario, population)
    connections = connections_of(scenario, devices, 0)
    availability = availability_of(scenario, devices, 0)
    assert connections is not None
    everyone, came, there = np.arange(2_000), [], []
    for hour in range(24, 96):
        connected = np.flatnonzero(connections.connected(hour * HOUR))
        came.append(int(availability.at(connected, hour * HOUR).sum()))
        there.append(int(availability.at(everyone, hour * HOUR).sum()))
    assert max(there) > 10 * min(there)
    by_hour = np.array(came).reshape(3, 24).mean(axis=0)
    # A mean of three such numbers has an error of about 7; the largest of 24 is 3.5 errors away once in 40 seeds.
    assert 20 < by_hour.min() < by_hour.max() < 80


def test_check_ins_that_are_wanted_are_measured() -> None:
    scenario = case(400, {"check_ins": {"wanted": 40, "window": "10m"}}, stop={"duration": "1d"})
    population = build_population(scenario)
    log = simulate_log(scenario, population)
    setting = setting_of(PreparedFederation(scenario, population, strata(scenario, population)))
    counted = count_of(log, setting)
    metrics = measure(log, clients_table(population, counted, None, None), setting, counted)
    # Each hour has its own chance, by what 40 or so devices told; the mean of a day is nearer.
    assert metrics["check_ins.per_second.mean"] == pytest.approx(40 / 600, rel=0.15)
    ratio = metrics["check_ins.ratio"]
    assert isinstance(ratio, float)
    assert 1.0 < ratio < 3.0


def test_a_smaller_federation_wants_fewer_check_ins() -> None:
    scenario = case(400, {"check_ins": {"wanted": 40, "window": "10m"}})
    smaller = scale_down(scenario, 4).scenario.server.check_ins
    assert smaller is not None
    assert smaller.wanted == 10


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"check_ins": {"every": "1m", "window": "2m"}}, "window is longer than every"),
        ({"check_ins": {"window": "2m"}}, "give either every"),
        ({"check_ins": {"every": "5m", "wanted": 4, "window": "2m"}}, "give either every"),
        ({"selection": "groups", "check_ins": {"every": "2m", "window": "1m"}}, "do not check in together"),
    ],
)
def test_impossible_check_ins_are_refused(server: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        case(40, server)


@pytest.mark.parametrize("check_ins", [{"wanted": 60, "window": "7m"}, {"every": "1h", "window": "5m"}])
def test_both_engines_ask_for_the_same_windows(check_ins: dict[str, Any]) -> None:
    """A process asks for its own window by its number, and the arrays for who is connected at an instant."""
    scenario = case(300, {"check_ins": check_ins})
    connections = connections_of(scenario, strata(scenario, build_population(scenario)), 0)
    assert connections is not None
    for instant in range(0, 26 * HOUR, 197_531):
        number, since = np.divmod(instant - connections.phase, connections.every)
        comes = [connections.comes(client, each) for client, each in enumerate(number.tolist())]
        assert (connections.connected(instant) == (since < connections.window) & np.array(comes)).all()


def test_who_comes_is_drawn_for_each_device_and_window_by_itself() -> None:
    """Counts, neighbours and the same device a window later agree with independent draws.

    Each of four deviates is beyond 3.7 once in 4,600 seeds, so it fails once in 1,100; the seed is fixed.
    """
    size, chance, windows = 2_000, 0.07, 400
    mask = np.zeros((windows, size))
    for window in range(windows):
        mask[window, bernoulli_sample(size, chance, stream(5, 0, Purpose.CHECK_IN), window)] = 1.0
    by_device = mask.mean(axis=0)
    spread = (by_device.var() / (chance * (1 - chance) / windows) - 1) * np.sqrt(size / 2)
    centred = (mask - chance) / np.sqrt(chance * (1 - chance))
    members = [
        centred.mean() * np.sqrt(mask.size),
        (centred[:, 1:] * centred[:, :-1]).mean() * np.sqrt(mask[:, 1:].size),
        (centred[1:] * centred[:-1]).mean() * np.sqrt(mask[1:].size),
        spread,
    ]
    assert np.abs(members).max() < 3.7


@pytest.mark.parametrize("chance", [1e-12, 1e-4, 0.5, 1.0 - 1e-12, 1.0])
def test_a_sample_is_ascending_and_within(chance: float) -> None:
    sample = bernoulli_sample(1_000, chance, stream(5, 0, Purpose.CHECK_IN), 3)
    assert (np.diff(sample) > 0).all()
    assert ((sample >= 0) & (sample < 1_000)).all()
    assert len(sample) == 1_000 or chance < 0.9
