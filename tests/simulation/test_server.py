"""The round loop: shortages, deadlines, over-selection, simultaneous events, and federations that are stuck."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.availability.always import AlwaysBatch
from fedsim.common.arrays import Ints
from fedsim.common.errors import StalledError
from fedsim.common.instants import FOREVER
from fedsim.common.reasons import Reason
from fedsim.log.recorder import InMemoryLog
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from fedsim.simulation.clock import Clock
from fedsim.simulation.processes.roster import Roster
from fedsim.simulation.processes.world import departures
from tests import worlds
from tests.worlds import with_fleet

NO_TIME = {"download": "0s", "train": "0s", "upload": "0s"}


def scenario(*, group: dict[str, Any] | None = None, server: dict[str, Any] | None = None, **top: Any) -> Scenario:
    data = {
        "stop": {"rounds": 10},
        "population": [{"devices": 6, "session": {**NO_TIME, "train": "60s"}, **(group or {})}],
        "server": {"cohort": 2, **(server or {})},
        **top,
    }
    return Scenario.model_validate(data)


def run(**changes: Any) -> InMemoryLog:
    case = scenario(**changes)
    return simulate_log(case, build_population(case))


def test_rounds_that_take_no_time_end_all_the_same() -> None:
    log = run(group={"session": NO_TIME, "separation": 2})
    assert (log.ended_s, len(log.rounds)) == (0.0, 10)


def test_the_duration_stops_the_run_in_the_middle_of_a_round() -> None:
    log = run(stop={"duration": "150s"})
    assert log.rounds["outcome"].to_list() == ["target", "target", "stopped"]
    assert log.rounds["closed_s"].to_list() == [60.0, 120.0, 150.0]
    assert log.participations["outcome"].to_list() == ["reported"] * 4 + ["aborted"] * 2


def test_a_round_that_closes_at_the_instant_of_the_stop_is_whole() -> None:
    log = run(stop={"duration": "120s"})
    assert log.rounds["outcome"].to_list() == ["target", "target"]


def test_over_selected_sessions_are_aborted_at_the_target() -> None:
    groups = [
        {"name": "fast", "devices": 2, "session": {**NO_TIME, "train": "10s"}},
        {"name": "slow", "devices": 1, "session": {**NO_TIME, "train": "99s"}},
    ]
    log = run(population=groups, server={"cohort": 2, "over_select": 1.5}, stop={"rounds": 3})
    assert log.rounds.select("selected", "reported", "closed_s").rows() == [(3, 2, 10.0), (3, 2, 20.0), (3, 2, 30.0)]
    assert log.participations.filter(client=2)["outcome"].to_list() == ["aborted"] * 3


def test_late_reports_count_for_no_round() -> None:
    """A late session of round 0 ends while round 1 is open, and must not close it."""
    groups = [
        {"name": "fast", "devices": 4, "session": {**NO_TIME, "train": "20s"}},
        {"name": "slow", "devices": 1, "session": {**NO_TIME, "train": "45s"}},
    ]
    log = run(population=groups, server={"cohort": 5, "deadline": "30s", "shortage": "proceed"}, stop={"rounds": 2})
    rows = log.rounds.select("opened_s", "closed_s", "selected", "reported", "late", "outcome").rows()
    assert rows == [(0.0, 30.0, 5, 4, 1, "deadline"), (30.0, 50.0, 4, 4, 0, "exhausted")]
    assert log.participations.filter(client=4).select("ended_s", "outcome").rows() == [(45.0, "late")]


def test_a_report_at_the_deadline_is_in_time() -> None:
    log = run(server={"deadline": "60s"})
    assert set(log.rounds["outcome"]) == {"target"}
    assert set(log.participations["outcome"]) == {"reported"}


def test_late_sessions_are_let_end_after_the_last_round() -> None:
    log = run(server={"deadline": "30s"}, stop={"rounds": 1})
    assert log.participations.select("ended_s", "outcome").rows() == [(60.0, "late")] * 2
    assert (log.rounds["closed_s"].to_list(), log.ended_s) == ([30.0], 60.0)


@pytest.mark.parametrize(
    ("shortage", "selected", "label"),
    [("proceed", [4, 2, 4, 2], "exhausted"), ("skip", [4, 0, 4, 0], "skipped")],
    ids=["proceed", "skip"],
)
@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_short_round_proceeds_or_is_skipped(shortage: str, selected: list[int], label: str, engine: str) -> None:
    """Six clients, four a round, one round of separation: every other round is short, and not one of four."""
    server = {"cohort": 4, "shortage": shortage}
    log = run(group={"separation": 1}, server=server, stop={"rounds": 4}, engine=engine)
    assert log.rounds["selected"].to_list() == log.rounds["reported"].to_list() == selected
    assert log.rounds["outcome"].to_list() == ["target", label] * 2


def test_waiting_ends_at_the_first_instant_with_enough() -> None:
    """Everyone rests for 100 s after a session of 60 s, so round t opens at 60 t' and waits for the rest to end."""
    log = run(group={"cooldown": "100s"}, server={"cohort": 6}, stop={"rounds": 3})
    assert log.rounds["opened_s"].to_list() == [0.0, 60.0, 160.0]
    assert log.rounds["selected_s"].to_list() == [0.0, 100.0, 200.0]


def test_wall_clock_cooldown_from_the_report() -> None:
    log = run(group={"cooldown": "100s"}, server={"cohort": 6, "cooldown_from": "reported"}, stop={"rounds": 3})
    assert log.rounds["selected_s"].to_list() == [0.0, 160.0, 320.0]


def test_a_stuck_federation_says_what_everyone_waits_for() -> None:
    """These separations can be kept, but not by going round: in round 4 only client 2 is left."""
    case = scenario(group={"separation": [1, 1, 1, 4, 4, 4]}, server={"cohort": 2, "selection": "cyclic"})
    with pytest.raises(StalledError) as caught:
        simulate_log(case, build_population(case))
    assert str(caught.value) == (
        "round 4 (opened at 4m) wants 2 eligible clients, but at most 1 can become eligible while it waits, so it "
        "would wait for ever; of 6 clients: 5 kept out by their separation (the first of them until round 5), 1 "
        "eligible. What helps: lower the separation or the cohort, or set server.shortage to skip"
    )


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_stall_keeps_the_log_until_then_and_with_a_duration_the_run_goes_on_to_its_end(engine: str) -> None:
    case = scenario(
        group={"separation": [1, 1, 1, 4, 4, 4]}, server={"cohort": 2, "selection": "cyclic"}, engine=engine
    )
    with pytest.raises(StalledError) as caught:
        simulate_log(case, build_population(case))
    log = caught.value.log
    assert (log.ended_s, log.rounds["outcome"].to_list()) == (240.0, ["target"] * 4 + ["stopped"])
    lasting = case.with_values({"stop.duration": "2h"})
    whole = simulate_log(lasting, build_population(lasting))
    assert whole.participations.equals(log.participations)
    assert (whole.ended_s, whole.rounds["outcome"].to_list()) == (7200.0, ["target"] * 4 + ["stopped"])


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_round_with_fewer_reports_than_the_minimum_fails(engine: str) -> None:
    """Two fast clients, four slow ones that are late; cohorts of three."""
    slow = {"session": {**NO_TIME, "speed": [9.9, 9.9, 1, 1, 1, 1], "train": "99s"}}
    server = {"cohort": 3, "deadline": "30s", "selection": "cyclic", "minimum_reports": 2}
    log = run(group=slow, server=server, engine=engine)
    assert log.rounds.select("reported", "outcome").rows()[:2] == [(2, "deadline"), (0, "failed")]
    assert set(log.participations.filter(round=0)["outcome"]) == {"reported", "late"}
    assert "reported" not in set(log.participations.filter(round=1)["outcome"])
    failed = run(group=slow, server=server | {"minimum_reports": 3}, engine=engine)
    assert failed.rounds["reported"].sum() == 0
    assert failed.participations.filter(round=0).sort("client")["outcome"].to_list() == ["failed", "failed", "late"]


PACES = [{"devices": 1, "session": {**NO_TIME, "train": f"{train}s"}} for train in (10, 20, 30, 90)]


@pytest.mark.parametrize("engine", ["process", "vectorized"])
@pytest.mark.parametrize(
    ("server", "closed", "reported", "outcome", "others"),
    [
        ({"cohort": 2, "over_select": 2, "grace": "10s"}, 30.0, 3, "target", "aborted"),
        ({"cohort": 2, "over_select": 2, "grace": "9s"}, 29.0, 2, "target", "aborted"),
        ({"cohort": 2, "over_select": 2, "grace": "1h"}, 90.0, 4, "target", "reported"),
        ({"cohort": 2, "over_select": 2, "grace": "1h", "deadline": "25s"}, 25.0, 2, "target", "aborted"),
        ({"cohort": 4, "deadline": "15s", "minimum_reports": 2, "overtime": "1m"}, 20.0, 2, "deadline", "late"),
        ({"cohort": 4, "deadline": "15s", "minimum_reports": 2, "overtime": "4s"}, 19.0, 0, "failed", "late"),
        ({"cohort": 4, "deadline": "15s", "minimum_reports": 1, "overtime": "1m"}, 15.0, 1, "deadline", "late"),
        (
            {"cohort": 3, "over_select": 1.3, "deadline": "15s", "minimum_reports": 3, "overtime": "1m"},
            *(30.0, 3, "target", "aborted"),
        ),
        ({"cohort": 4, "deadline": "15s", "minimum_reports": 4, "overtime": "1h"}, 90.0, 4, "target", "reported"),
    ],
)
def test_rounds_take_reports_after_the_last_they_want_and_wait_for_a_minimum(
    server: dict[str, Any], closed: float, reported: int, outcome: str, others: str, engine: str
) -> None:
    """Four devices that take 10, 20, 30 and 90 seconds, all of which are selected."""
    log = run(population=PACES, server=server, engine=engine, stop={"rounds": 1})
    assert log.rounds.select("closed_s", "reported", "outcome").row(0) == (closed, reported, outcome)
    assert log.participations.sort("client")["outcome"][-1] == others


@pytest.mark.parametrize(
    "server",
    [
        {"cohort": 2, "grace": "10s"},
        {"cohort": 2, "over_select": 2, "grace": "10s", "selection": "poisson"},
        {"cohort": 2, "deadline": "10s", "overtime": "10s"},
        {"cohort": 2, "minimum_reports": 1, "overtime": "10s"},
        {"mode": "buffered", "concurrency": 2, "buffer": 1, "grace": "10s"},
    ],
)
def test_grace_and_overtime_are_refused_where_they_change_nothing(server: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"grace|overtime"):
        Scenario.model_validate({"stop": {"rounds": 1}, "population": PACES, "server": server})


def test_patience_ends_a_wait_that_would_take_for_ever() -> None:
    seldom = {"availability": {"kind": "renewal", "on": "1s", "off": "1h"}}
    case = scenario(group=seldom, server={"cohort": 6, "patience": "2h"})
    with pytest.raises(
        StalledError, match=r"waited 2h, which is the server's patience; of 6 clients: .* not available"
    ):
        simulate_log(case, build_population(case))


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_patience_ends_sessions_of_centuries(engine: str) -> None:
    """As those of devices whose speeds are drawn near 0, with which the gauges are counted every hour."""
    slow = {"session": {"train": "20d"}}
    server = {"cohort": 3, "deadline": None, "patience": "19d"}
    case = scenario(group=slow, server=server, engine=engine)
    with pytest.raises(StalledError, match=r"^round 0 has waited 19d for reports.*set server\.deadline"):
        simulate_log(case, build_population(case))
    case = scenario(group=slow, server=server | {"patience": "30d"}, engine=engine)
    assert simulate_log(case, build_population(case)).rounds["outcome"][0] == "target"


class Leaving(AlwaysBatch):
    """Devices that leave for good at their index times 5 ms."""

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:  # noqa: ARG002
        return 5 * clients


def test_a_server_that_waits_for_devices_that_left_for_good_is_woken() -> None:
    clock = Clock()
    roster = Roster(clock, np.zeros(3, dtype=np.int64))
    for client in range(3):
        roster.hold(client, int(Reason.UNAVAILABLE))
    roster.lift(0, int(Reason.UNAVAILABLE))
    enough = roster.wait_for(2, FOREVER)
    availability: Any = Leaving()
    clock.process(departures(clock, roster, availability, np.arange(1, 3), FOREVER))
    clock.run(until=enough)
    assert (clock.now, roster.attainable()) == (5, 2)
    clock.run(until=11)
    assert roster.attainable() == 1
    assert roster.explain() == "of 3 clients: 2 never available again, 1 eligible"


@pytest.mark.parametrize("number", range(12))
def test_sessions_end_in_no_way_that_the_scenario_does_not_name(number: int) -> None:
    """Other than by the end of the run, which aborts those that still run."""
    data = with_fleet(worlds.world(number, always=number % 4 == 0, buffered=number % 3 == 0), number)
    case = worlds.scenario(data, seed=number, engine="vectorized")
    try:
        log = simulate_log(case, build_population(case))
    except StalledError as error:
        pytest.skip(str(error))
    ended = log.participations.filter(pl.col("ended_s") < log.ended_s)["outcome"]
    assert set(ended) <= {"reported", *case.losses}
