"""What holds in every log of a buffered server, and cases that are worked out by hand."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings

from fedsim.common.errors import StalledError
from fedsim.log import BUFFERED, GAUGES, NOTED, ROUNDS, noted
from fedsim.log.recorder import InMemoryLog
from fedsim.population import Population, build_population, check_feasible
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer
from fedsim.simulation import simulate_log
from tests.scenarios import buffered_scenarios

ENGINES = ["process", "vectorized"]


def run(scenario: Scenario, engine: str = "process") -> tuple[Population, BufferedServer, InMemoryLog]:
    population, server = build_population(scenario), scenario.server
    assert check_feasible(scenario, population) == []
    assert isinstance(server, BufferedServer)
    try:
        return population, server, simulate_log(scenario.model_copy(update={"engine": engine}), population)
    except StalledError:
        assume(False)  # sessions that drop out, or come too late, leave nobody for the rest of a version
        raise


def reports(log: InMemoryLog) -> pl.DataFrame:
    """Return the sessions that reported, in the order in which the server took them."""
    return log.participations.filter(pl.col("outcome").is_in(["reported", "stale"])).sort(
        "ended_s", "round", "position"
    )


@pytest.mark.long
@settings(max_examples=60)
@given(buffered_scenarios())
def test_what_holds_in_every_log(scenario: Scenario) -> None:
    """Steps, staleness, places, separation in versions and cool-downs, and tables that agree."""
    population, server, log = run(scenario)
    check_steps_and_staleness(server, log)
    check_sessions(server, log)
    check_separation_and_cooldown(population, server, log)
    check_tables(scenario, server, log)


def check_steps_and_staleness(server: BufferedServer, log: InMemoryLog) -> None:
    """Versions, staleness, discards and the instants of the steps follow from the reports and their order alone."""
    version, taken, closed = 0, 0, []
    for row in reports(log).to_dicts():
        assert row["staleness"] == version - row["version"] >= 0
        late = server.max_staleness is not None and row["staleness"] > server.max_staleness
        assert row["outcome"] == ("stale" if late else "reported")
        taken += not late
        if taken == server.buffer:
            version, taken = version + 1, 0
            closed.append(row["ended_s"])
    whole = log.rounds.filter(outcome="target")
    assert whole["closed_s"].to_list() == closed
    assert set(whole["reported"]) <= {server.buffer}
    assert log.rounds["opened_s"].to_list() == [0.0, *closed][: len(log.rounds)]
    rest = log.rounds.filter(pl.col("outcome") != "target")
    assert rest.select("outcome", "reported").rows() in ([], [("stopped", taken)])
    assert log.participations.filter(~pl.col("outcome").is_in(["reported", "stale"]))["staleness"].null_count() == len(
        log.participations
    ) - len(reports(log))


def check_sessions(server: BufferedServer, log: InMemoryLog) -> None:
    """Nobody is in two, and no more run than there are places."""
    starts, ends = (log.participations[name].to_numpy() for name in ("selected_s", "ended_s"))
    assert (ends >= starts).all()
    for instant in starts:
        assert ((starts <= instant) & (ends > instant)).sum() <= server.concurrency
    for _, sessions in log.participations.group_by("client", maintain_order=True):
        assert (sessions["selected_s"].to_numpy()[1:] >= sessions["ended_s"].to_numpy()[:-1]).all()


def check_separation_and_cooldown(population: Population, server: BufferedServer, log: InMemoryLog) -> None:
    for (client,), sessions in log.participations.group_by("client", maintain_order=True):
        separation = population.separation[int(str(client))]
        rest_s = population.cooldown_s[int(str(client))] * (1 - 1e-12)
        if server.cooldown_from == "selected":
            since, since_s = sessions["version"].to_numpy()[:-1], sessions["selected_s"].to_numpy()[:-1]
            counted = np.ones(len(since), dtype=bool)
        else:
            since = (sessions["version"] + sessions["staleness"].fill_null(0)).to_numpy()[:-1]
            since_s, counted = sessions["ended_s"].to_numpy()[:-1], (sessions["outcome"] == "reported").to_numpy()[:-1]
        assert (sessions["version"].to_numpy()[1:] >= since + 1 + separation)[counted].all()
        assert (sessions["selected_s"].to_numpy()[1:] >= since_s + rest_s)[counted].all()


def check_tables(scenario: Scenario, server: BufferedServer, log: InMemoryLog) -> None:
    rounds, sessions = log.rounds, log.participations
    of_sessions = pl.Schema({**BUFFERED, **{name: NOTED[name] for name in noted(scenario)}})
    assert (rounds.schema, sessions.schema, log.gauges.schema) == (ROUNDS, of_sessions, GAUGES)
    assert rounds["round"].to_list() == list(range(len(rounds)))
    assert sessions.equals(sessions.sort("round", "position"))
    assert sessions["round"].equals(sessions["version"].alias("round"))
    positions = pl.int_range(pl.len()).over("round").alias("position")
    assert sessions.select(positions)["position"].equals(sessions["position"])
    gap = (pl.col("round") - pl.col("round").shift(1).over("client")).alias("gap")
    assert sessions.select(gap)["gap"].equals(sessions["gap"])
    for row in rounds.to_dicts():
        begun = sessions.filter(round=row["round"])
        assert (row["selected"], row["selected_s"]) == (len(begun), begun["selected_s"].min())
        assert not len(begun) or row["opened_s"] <= row["selected_s"] <= row["closed_s"]
        assert not len(begun) or row["eligible"] >= 1
        taken = sessions.filter(outcome="reported").filter(pl.col("version") + pl.col("staleness") == row["round"])
        assert row["reported"] == len(taken)
    for outcome in ("dropped", "late"):
        assert rounds[outcome].sum() == len(sessions.filter(outcome=outcome))
        # Whoever ends at the instant of a step has ended before it.
        ended = sessions.filter(outcome=outcome)["ended_s"].to_numpy()
        steps = rounds.filter(outcome="target")["closed_s"].to_numpy()
        at_version = np.searchsorted(steps, ended, side="left")
        if len(np.unique(steps)) == len(steps):
            assert np.bincount(at_version, minlength=len(rounds)).tolist() == rounds[outcome].to_list()
    if server.deadline is not None:
        length = sessions["ended_s"] - sessions["selected_s"]
        assert (length <= server.deadline * (1 + 1e-12)).all()


def scenario(*, group: dict[str, Any] | None = None, server: dict[str, Any] | None = None, **top: Any) -> Scenario:
    session = {"download": "0s", "train": "60s", "upload": "0s"}
    data = {
        "stop": {"rounds": 6},
        "population": [{"devices": 12, "session": session, **(group or {})}],
        "server": {"mode": "buffered", "concurrency": 4, "buffer": 2, "selection": "cyclic", **(server or {})},
        **top,
    }
    return Scenario.model_validate(data)


SPEEDS = {"devices": 4, "session": {"download": "0s", "train": "60s", "upload": "0s", "speed": [6, 3, 2, 1]}}
"""Sessions of 10, 20, 30 and 60 seconds."""


@pytest.mark.parametrize("engine", ENGINES)
def test_worked_out_by_hand(engine: str) -> None:
    """Everyone starts at 0. Client 0 must wait for the step of version 0, at 20 s, which clients 0 and 1 make."""
    _, _, log = run(scenario(group=SPEEDS, stop={"rounds": 3}), engine)
    rows = log.participations.select(
        "round", "client", "position", "selected_s", "ended_s", "outcome", "gap", "staleness"
    )
    assert rows.rows() == [
        (0, 0, 0, 0.0, 10.0, "reported", None, 0),
        (0, 1, 1, 0.0, 20.0, "reported", None, 0),
        (0, 2, 2, 0.0, 30.0, "reported", None, 1),
        (0, 3, 3, 0.0, 40.0, "aborted", None, None),
        (1, 0, 0, 20.0, 30.0, "reported", 1, 0),
        (1, 1, 1, 20.0, 40.0, "reported", 1, 1),
        (2, 2, 0, 30.0, 40.0, "aborted", 2, None),
        (2, 0, 1, 30.0, 40.0, "reported", 1, 0),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_reports_that_are_too_stale_are_discarded(engine: str) -> None:
    """A report of 60 s is three steps late; discarded, it starts no cool-down and counts for no step."""
    _, _, log = run(scenario(group=SPEEDS, server={"max_staleness": 2}, stop={"duration": "65s"}), engine)
    assert log.participations.filter(client=3).select("ended_s", "outcome", "staleness").row(0) == (60.0, "stale", 3)
    assert log.rounds["reported"].sum() == len(log.participations.filter(outcome="reported"))
    assert log.rounds["outcome"].to_list()[-1] == "stopped"
    assert log.rounds["closed_s"].to_list()[-1] == 65.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_session_that_takes_too_long_is_given_up(engine: str) -> None:
    _, _, log = run(scenario(group=SPEEDS, server={"deadline": "30s"}), engine)
    assert log.participations.filter(client=2)["outcome"].to_list()[0] == "reported"
    assert log.participations.filter(client=3).select("ended_s", "outcome", "staleness").row(0) == (30.0, "late", None)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drop_out_frees_its_place_at_once(engine: str) -> None:
    """One place, devices that are on for 10 s and sessions of a minute: whoever is there is taken, and drops out."""
    short = {"devices": 9, "availability": {"kind": "renewal", "on": "10s", "off": "10s"}}
    steady = {"name": "steady", "devices": 1, "session": {"train": "5m"}}
    population = [{"name": "first", **short}, steady]
    case = scenario(population=population, server={"concurrency": 1, "buffer": 1}, stop={"rounds": 1})
    _, _, log = run(case, engine)
    rows = log.participations
    assert (len(rows.filter(outcome="dropped")) >= 3, rows["outcome"].to_list()[-1]) == (True, "reported")
    # From one end to the next selection nobody who may be selected was available.
    assert (rows["selected_s"].to_numpy()[1:] >= rows["ended_s"].to_numpy()[:-1]).all()
    assert (rows["selected_s"].to_numpy()[1:] == rows["ended_s"].to_numpy()[:-1]).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_place_is_filled_at_the_instant_somebody_is_eligible(engine: str) -> None:
    """Everyone rests until 100 s after selection; only then do the twelve start again, all at once."""
    case = scenario(group={"cooldown": "100s"}, server={"concurrency": 12, "buffer": 6}, stop={"rounds": 6})
    _, _, log = run(case, engine)
    assert log.rounds["closed_s"].to_list() == [60.0, 60.0, 160.0, 160.0, 260.0, 260.0]
    assert sorted(set(log.participations["selected_s"])) == [0.0, 100.0, 200.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_duration_stops_the_run_between_two_steps(engine: str) -> None:
    """At 120 s the third and fourth version begin and end; no fifth begins, since the run stops at that instant."""
    _, _, log = run(scenario(stop={"duration": "120s"}), engine)
    assert log.rounds.select("closed_s", "outcome").rows() == [(60.0, "target")] * 2 + [(120.0, "target")] * 2
    _, _, log = run(scenario(stop={"duration": "150s"}), engine)
    assert log.rounds.select("closed_s", "selected", "outcome").rows()[-1] == (150.0, 4, "stopped")
    assert log.participations.filter(outcome="aborted")["ended_s"].to_list() == [150.0] * 4


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stuck_federation_says_what_everyone_waits_for(engine: str) -> None:
    """All six drop out of version 0, and none may be selected again before version 1."""
    group = {"devices": 6, "availability": {"kind": "renewal", "on": "5s", "off": "5s"}}
    case = scenario(group=group).model_copy(update={"engine": engine})
    with pytest.raises(StalledError) as caught:
        simulate_log(case, build_population(case))
    message = str(caught.value)
    assert message.startswith("version 0 (begun at 0s) has 0 of the 2 reports of its step, but no session runs and ")
    assert "of 6 clients: 6 kept out by their separation (the first of them until version 1), 0 eligible" in message
    assert message.endswith("or let cool-downs start from reports (server.cooldown_from)")


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("places", [1, 12])
def test_patience_ends_a_version_whose_reports_never_come(engine: str, places: int) -> None:
    """Drop-outs without cool-down could go on for ever, with places free or not."""
    group = {"availability": {"kind": "renewal", "on": "5s", "off": "5s"}}
    server = {"cooldown_from": "reported", "patience": "30m", "concurrency": places}
    case = scenario(group=group, server=server).model_copy(update={"engine": engine})
    with pytest.raises(StalledError, match=r"and has lasted 30m, which is the server's patience; of 12 clients: "):
        simulate_log(case, build_population(case))
