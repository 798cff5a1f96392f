"""A fleet that is stepped: the log of a run, what each round shows, feedback and its mistakes, and going on."""

import re
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.common.errors import RunError, ScenarioError, StalledError
from fedsim.log import fingerprint
from fedsim.population import build_population
from fedsim.run.live import LiveFleet
from fedsim.scenario import Scenario
from fedsim.simulation import Closed, simulate_log
from tests.scenarios import buffered_scenarios, scenarios
from tests.simulation.test_engines_agree import MANY

LAWS = ["oort", "power_of_choice", "loss_proportional", "refl"]
ENGINES = ["process", "vectorized"]


def stepped(scenario: Scenario) -> tuple[LiveFleet, list[Closed], str | None]:
    """Step a fleet to its end; return the error of one that stalls, too."""
    fleet, rounds = fedsim.live(scenario), list[Closed]()
    try:
        rounds.extend(fleet)
    except StalledError as error:
        return fleet, rounds, str(error)
    return fleet, rounds, None


def check(scenario: Scenario) -> None:
    """The log is that of a run, and each round shows what the log has of it; the engines show the same."""
    shown = []
    for engine in ENGINES:
        case = scenario.model_copy(update={"engine": engine})
        fleet, rounds, stalled = stepped(case)
        shown.append([str(vars(each)) for each in rounds])
        if stalled is not None:
            with pytest.raises(StalledError, match=re.escape(stalled)):
                simulate_log(case, build_population(case))
            continue
        log = simulate_log(case, build_population(case))
        found = fleet._memory
        for name in ("rounds", "participations", "gauges"):
            assert fingerprint(getattr(found, name)) == fingerprint(getattr(log, name))
        assert fleet._ended_s == log.ended_s
        check_rounds(scenario, rounds, log.rounds, log.participations)
    assert shown[0] == shown[1]


def check_rounds(scenario: Scenario, rounds: list[Closed], closed: pl.DataFrame, participations: pl.DataFrame) -> None:
    sync = scenario.server.selects_once
    unfinished = 0 if sync else closed.filter(outcome="stopped").height
    assert [each.number for each in rounds] == closed["round"].to_list()[: len(closed) - unfinished]
    for each, row in zip(rounds, closed.iter_rows(named=True), strict=False):
        own = participations.filter(round=each.number).sort("position")
        assert (each.outcome, each.opened_s, each.closed_s) == (row["outcome"], row["opened_s"], row["closed_s"])
        assert each.selected.tolist() == own["client"].to_list()
        done = own.filter(pl.col("outcome").cast(pl.String).is_in(["reported", "failed"]))
        until = dict(zip(each.selected.tolist(), each.until_s.tolist(), strict=True))
        assert all(until[client] == ended for client, ended in done.select("client", "ended_s").iter_rows()) or not sync
        if not sync:
            taken = participations.filter(outcome="reported")
            taken = taken.filter(taken["version"] + taken["staleness"] == each.number).sort(
                "ended_s", "version", "position"
            )
            assert each.reporters.tolist() == taken["client"].to_list()
            assert each.versions[each.arrivals].tolist() == taken["version"].to_list()
            assert each.ended_s[each.arrivals].tolist() == taken["ended_s"].to_list()
            assert len(each.reporters) == scenario.server.buffer
            continue
        assert each.clients.tolist() == own["client"].to_list()
        reported = own.filter(outcome="reported").sort("ended_s", "position")
        assert each.reporters.tolist() == reported["client"].to_list()
        assert each.ended_s[each.arrivals].tolist() == reported["ended_s"].to_list()
        ended = own["ended_s"].to_numpy() <= each.closed_s
        assert each.ended_s.tolist() == np.minimum(own["ended_s"].to_numpy(), each.closed_s).tolist()
        assert each.outcomes[ended].tolist() == own.filter(pl.Series(ended))["outcome"].to_list()
        assert set(each.outcomes[~ended].tolist()) <= {"late"}


@settings(max_examples=24)
@given(st.one_of(scenarios(always=True), buffered_scenarios(always=True)))
def test_the_log_of_a_fleet_is_that_of_a_run(scenario: Scenario) -> None:
    check(scenario)


@pytest.mark.campaign
@settings(max_examples=MANY // 2)
@given(st.one_of(scenarios(), buffered_scenarios()))
def test_the_logs_of_many_fleets_are_those_of_runs(scenario: Scenario) -> None:
    check(scenario)


def made(law: Any = "oort", engine: str = "process", **server: Any) -> Scenario:
    servers = {"cohort": 4, "over_select": 1.5, "deadline": "70s"} if "mode" not in server else {}
    return Scenario.model_validate(
        {
            "engine": engine,
            "stop": {"rounds": 60},
            "population": [
                {
                    "devices": 30,
                    "separation": 2,
                    "session": {
                        "speed": {"kind": "lognormal", "median": 1, "sigma": 0.5},
                        "train": {"kind": "lognormal", "median": "30s", "sigma": 0.7},
                    },
                    "availability": {"kind": "renewal", "on": "40m", "off": "10m"},
                }
            ],
            "server": {**servers, "selection": law, **server},
        }
    )


BUFFERED = {"mode": "buffered", "concurrency": 6, "buffer": 3}


def losses_of(round_: Closed) -> list[float]:
    """Losses that follow from the client and the round, and can be told again."""
    return [1 + (client * 37 % 11) / (1 + round_.number / 9) for client in round_.reporters.tolist()]


def told_through(fleet: LiveFleet, rounds: int = 10**6) -> list[list[int]]:
    """Step a fleet, tell it of each round, and return who was selected."""
    selected = []
    for each in fleet:
        selected.append(each.selected.tolist())
        each.report(losses_of(each), norms=losses_of(each))
        if len(selected) == rounds:
            break
    return selected


@pytest.mark.parametrize("server", [{}, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize("law", LAWS)
def test_a_fleet_goes_on_from_what_it_was_told(law: str, server: dict[str, Any]) -> None:
    """Both engines select the same clients; one stopped after 25 rounds goes on in the other, to the same log."""
    first, second = (fedsim.live(made(law, engine, **server)) for engine in ENGINES)
    everyone = told_through(first)
    assert told_through(second) == everyone
    assert len({tuple(each) for each in everyone}) > 20
    with fedsim.live(made(law, "vectorized", **server)) as third:
        told_through(third, 25)
    fourth = fedsim.live(made(law, **server), feedback=third.feedback)
    assert told_through(fourth) == everyone[25:]
    results = [fleet.result() for fleet in (first, second, fourth)]
    assert results[0].metrics == results[1].metrics == results[2].metrics
    assert len({fingerprint(result.participations) for result in results}) == 1


def test_feedback_makes_a_difference() -> None:
    """With other losses, others are selected; so what is told is not ignored."""
    for law in ("oort", "power_of_choice", "loss_proportional"):
        plain, other = fedsim.live(made(law)), fedsim.live(made(law))
        for one, two in zip(plain, other, strict=True):
            one.report(losses_of(one))
            two.report({client: 1.0 + client for client in two.reporters.tolist()})
        assert not plain.result().participations.equals(other.result().participations)


def test_mistakes_in_feedback_are_told() -> None:
    fleet = fedsim.live(made())
    first = next(fleet)
    reporters = first.reporters.tolist()
    stranger = next(client for client in range(30) if client not in reporters)
    good = dict.fromkeys(reporters, 1.0)
    for losses, message in (
        ([1.0], r"losses has the shape \(1,\), and 4 reports came in round 0: give one number for each"),
        ({**good, stranger: 1.0}, f"losses: client {stranger} has no report in round 0"),
        (dict.fromkeys(reporters[1:], 1.0), f"losses: client {reporters[0]} reported in round 0, and has no number"),
        ([1, 2, float("nan"), 3], f"losses of client {reporters[2]} in round 0 is nan; it must be at least 0"),
        ([1, 2, -1, 3], "is -1.0; it must be at least 0"),
        (["a", "b", "c", "d"], "losses must be numbers"),
    ):
        with pytest.raises(RunError, match=message):
            first.report(losses)
    with pytest.raises(RunError, match="norms of client"):
        first.report(good, norms=[np.inf] * 4)
    with pytest.raises(RunError, match="by 'oort' goes by the outcome of round 0, which has not been reported"):
        next(fleet)
    first.report(good)
    with pytest.raises(RunError, match="round 0 has been told already"):
        first.report(good)
    second = next(fleet)
    with pytest.raises(RunError, match="round 0 is over: only the round that came last"):
        first.report(good)
    with pytest.raises(RunError, match="the run has not ended: 2 rounds of it have closed"):
        fleet.result()
    second.report([1.0] * len(second.reporters))
    feedback = fleet.feedback
    fleet.close()
    with pytest.raises(RunError, match="the fleet is closed"):
        next(fleet)
    with pytest.raises(RunError, match="feedback has no column 'client'"):
        fedsim.live(made(), feedback=feedback.drop("client"))
    with pytest.raises(RunError, match="feedback has no column 'round'"):
        fedsim.live(made(), feedback=cast("Any", "losses"))
    with pytest.raises(RunError, match="feedback is of another run: other clients reported in its round 0"):
        fedsim.live(made("refl"), feedback=feedback)
    with pytest.raises(RunError, match="feedback is of another run: it has round 70, and the run has none"):
        fedsim.live(made("uniform"), feedback=feedback[:1].with_columns(round=pl.lit(70, pl.Int64)))


def test_a_law_that_ignores_feedback_may_be_told_or_not() -> None:
    plain, told = fedsim.live(made("uniform")), fedsim.live(made("uniform"))
    list(plain)
    told_through(told, 30)
    list(told)
    result = fedsim.simulate(made("uniform"))
    assert plain.result().metrics == told.result().metrics == result.metrics
    assert len(told.feedback) > 100 == 100 + len(plain.feedback)


def test_a_run_without_feedback_is_refused() -> None:
    with pytest.raises(ScenarioError, match="selection by 'oort' goes by the losses of clients, and the scen"):
        fedsim.simulate(made())
    with pytest.raises(ScenarioError, match="the law goes by the outcome of earlier rounds, which nothing gives here"):
        simulate_log(made(), build_population(made()))
