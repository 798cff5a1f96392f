"""What holds in every log, whatever the scenario."""

from copy import deepcopy
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings

from fedsim.availability import Place, build_model, intervals
from fedsim.common.errors import StalledError
from fedsim.common.keyed import Purpose, stream
from fedsim.common.outcomes import ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.log import GAUGES, NOTED, PARTICIPATIONS, ROUNDS, noted
from fedsim.log.recorder import InMemoryLog
from fedsim.population import Population, build_population, check_feasible
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.simulation import simulate_log
from tests.scenarios import scenarios


def run(scenario: Scenario) -> tuple[Population, InMemoryLog]:
    population = build_population(scenario)
    assert check_feasible(scenario, population) == []
    try:
        return population, simulate_log(scenario, population)
    except StalledError:
        assume(False)  # a whole cohort of rarely available devices, or drop-outs with a long cool-down
        raise


@settings(max_examples=150)
@given(scenarios())
def test_what_holds_in_every_log(scenario: Scenario) -> None:
    """Separation and cool-downs are kept, nobody is in two sessions, tables agree, rounds follow the protocol."""
    population, log = run(scenario)
    check_separation_and_cooldown(scenario, population, log)
    check_sessions(log)
    check_tables(scenario, log)
    check_rounds(scenario, log)


def check_separation_and_cooldown(scenario: Scenario, population: Population, log: InMemoryLog) -> None:
    server = scenario.server
    counted = log.participations
    if server.cooldown_from == "reported":
        counted = counted.filter(pl.col("outcome") == "reported")
    for (client,), sessions in counted.group_by("client"):
        gaps = np.diff(sessions["round"].to_numpy())
        assert (gaps >= population.separation[int(str(client))] + 1).all()
    for (client,), sessions in log.participations.group_by("client", maintain_order=True):
        starts, ends = sessions["selected_s"].to_numpy(), sessions["ended_s"].to_numpy()
        rest_s = population.cooldown_s[int(str(client))]
        if server.cooldown_from == "selected":
            assert (np.diff(starts) >= rest_s * (1 - 1e-12)).all()
        else:
            reported = sessions["outcome"].to_numpy()[:-1] == "reported"
            assert (starts[1:][reported] >= ends[:-1][reported] + rest_s * (1 - 1e-12)).all()


def check_sessions(log: InMemoryLog) -> None:
    """Nobody is in two at once."""
    for _, sessions in log.participations.group_by("client", maintain_order=True):
        starts, ends = sessions["selected_s"].to_numpy(), sessions["ended_s"].to_numpy()
        assert (ends >= starts).all()
        assert (starts[1:] >= ends[:-1]).all()


def check_tables(scenario: Scenario, log: InMemoryLog) -> None:
    rounds, sessions = log.rounds, log.participations
    of_sessions = pl.Schema({**PARTICIPATIONS, **{name: NOTED[name] for name in noted(scenario)}})
    assert (rounds.schema, sessions.schema, log.gauges.schema) == (ROUNDS, of_sessions, GAUGES)
    assert rounds["round"].to_list() == list(range(len(rounds)))
    assert set(rounds["outcome"]) <= set(ROUND_OUTCOMES)
    assert set(sessions["outcome"]) <= set(SESSION_OUTCOMES)
    counted = rounds.select("round").join(
        sessions.group_by("round").agg(
            selected=pl.len().cast(pl.Int64),
            **{name: (pl.col("outcome") == name).sum().cast(pl.Int64) for name in ("reported", "dropped", "late")},
        ),
        on="round",
        how="left",
        maintain_order="left",
    )
    assert counted.fill_null(0).equals(rounds.select(counted.columns))
    gap = (pl.col("round") - pl.col("round").shift(1).over("client")).alias("gap")
    assert sessions.select(gap)["gap"].equals(sessions["gap"])
    assert sessions.equals(sessions.sort("round", "position"))
    assert sessions.select("round", "client").is_unique().all()


def check_rounds(scenario: Scenario, log: InMemoryLog) -> None:
    server = scenario.sync_server
    rows = log.rounds.to_dicts()
    for row in rows:
        members = log.participations.filter(pl.col("round") == row["round"])
        if row["selected_s"] is None:
            assert (row["selected"], row["outcome"] in {"skipped", "stopped"}) == (0, True)
            continue
        assert row["opened_s"] <= row["selected_s"] <= row["closed_s"]
        bernoulli = server.selection.kind == "bernoulli"
        assert bernoulli or 1 <= row["selected"] <= server.wanted
        assert row["selected"] <= row["eligible"]
        assert bernoulli or row["selected"] == server.wanted or server.shortage == "proceed"
        came = row["reported"] + (members["outcome"] == "failed").sum()
        gate, too_few = server.secure_aggregation, came < server.minimum_reports
        if gate is not None:
            too_few |= came < gate.threshold or (came > 0 and row["reported"] == 0)
        if gate is None or row["outcome"] != "stopped":
            assert row["reported"] == (0 if too_few else came)
        assert (row["outcome"] == "failed") == too_few or row["outcome"] == "stopped"
        target = row["selected"] if bernoulli else server.cohort
        assert (row["outcome"] == "empty") == (row["selected"] == 0) or row["outcome"] in {"stopped", "failed"}
        reached = row["reported"] >= target > 0
        assert (row["outcome"] == "target") == reached or row["outcome"] in {"stopped", "failed"}
        last = members.filter(pl.col("outcome") != "late")["ended_s"].max()
        taken_s = row["closed_s"] - (0.0 if gate is None or row["outcome"] == "stopped" else gate.unmasking)
        if row["outcome"] in {"target", "empty", "exhausted"}:
            assert (last if row["selected"] else row["selected_s"]) == pytest.approx(taken_s)
        if row["outcome"] == "deadline":
            assert taken_s == pytest.approx(row["selected_s"] + server.deadline, abs=1e-6)
        late = members.filter(pl.col("outcome") == "late")["ended_s"].to_numpy()
        stopped_unmasking = gate is not None and row["outcome"] == "stopped"
        assert (late > taken_s).all() or row["outcome"] in {"deadline", "failed"} or stopped_unmasking
    for before, after in pairwise(rows):
        assert after["opened_s"] == pytest.approx(before["closed_s"] + server.pause, abs=1e-6)


@settings(max_examples=60)
@given(scenarios(always=False))
def test_sessions_lie_within_availability(scenario: Scenario) -> None:
    """A device is available from selection on, and a session that outlasts its interval drops out at its end."""
    population, log = run(scenario)
    draws = stream(scenario.seed, 0, Purpose.AVAILABILITY)
    for (client,), sessions in log.participations.group_by("client"):
        number = int(str(client))
        place = Place(scenario.start, ZoneInfo("UTC"))
        model = build_model(scenario.population[population.group[number]].availability)
        available = intervals(model, number, place, draws)
        start, end = next(available)
        for row in sessions.to_dicts():
            while end <= row["selected_s"]:
                start, end = next(available)
            assert start <= row["selected_s"] < end
            assert row["ended_s"] <= end
            assert (row["outcome"] == "dropped") == (row["ended_s"] == end) or row["outcome"] == "aborted"


@pytest.mark.parametrize("change", ["population.0.separation=0", "server.selection=uniform", "server.cohort=1"])
def test_devices_live_the_same_days_whatever_the_server_does(change: str) -> None:
    """Common random numbers: a what-if on the server leaves every device's availability as it was."""
    base = {
        "seed": 3,
        "stop": {"duration": "6h"},
        "population": [
            {"devices": 40, "separation": 2, "availability": {"kind": "renewal", "on": "20m", "off": "30m"}}
        ],
        "server": {"cohort": 4},
        "records": {"gauges": "1m"},
    }
    document = Document(data=deepcopy(base))
    document.override(change)
    _, one = run(Scenario.model_validate(base))
    _, two = run(Scenario.model_validate(document.data))
    assert one.gauges["available"].to_list() == two.gauges["available"].to_list()
    assert one.participations["client"].to_list() != two.participations["client"].to_list()
