"""When a run ends, and that a criterion which nothing in the package knows ends runs as the built-in ones do."""

import ast

import polars as pl
import pytest

from fedsim import simulate
from fedsim.log.recorder import InMemoryLog
from fedsim.population import build_population
from fedsim.run.budget import check_log_size
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts, Stop
from fedsim.simulation import simulate_log
from fedsim.trials.pilot import pilot
from tests.conftest import Write
from tests.test_layers import modules

_DAY_S = 86_400.0
ENGINES = ["process", "vectorized"]
SERVERS = {"rounds": {"cohort": 3, "pause": "1m"}, "buffered": {"mode": "buffered", "concurrency": 4, "buffer": 3}}


class ParticipationStop(Stop):
    """Ends a run when enough participations have begun."""

    participations: int


def log_of(server: str, engine: str, stop: Stop) -> InMemoryLog:
    base = {"population": [{"devices": 20, "weight": {"kind": "zipf", "exponent": 1}}], "stop": {"duration": "1d"}}
    scenario = Scenario.model_validate({**base, "server": SERVERS[server]})
    scenario = scenario.model_copy(update={"engine": engine, "stop": stop})
    return simulate_log(scenario, build_population(scenario))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("server", SERVERS)
def test_a_criterion_of_ones_own_ends_a_run(server: str, engine: str) -> None:
    """The run is the beginning of a longer one, and ends with the first selection that reaches the criterion."""
    log = log_of(server, engine, ParticipationStop(duration=_DAY_S, participations=100))
    longer = log_of(server, engine, Stop(duration=_DAY_S))
    most = SERVERS[server].get("concurrency", 3)
    assert 100 <= len(log.participations) < 100 + int(str(most))
    begun = ("round", "client", "position", "selected_s")
    assert log.participations.select(begun).equals(longer.participations.select(begun).head(len(log.participations)))
    assert log.ended_s < longer.ended_s
    assert log.participations["ended_s"].null_count() == 0
    assert set(log.rounds["outcome"]) <= {"target", "stopped"}
    assert log.rounds.filter(pl.col("outcome") == "stopped").height == (server == "buffered")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("stop", [{"rounds": 10, "duration": "1d"}, {"rounds": 100_000, "duration": "15m"}])
def test_whichever_comes_first(server: str, engine: str, stop: dict[str, object]) -> None:
    """The run ends at the first of its two criteria."""
    log = log_of(server, engine, Stop.model_validate(stop))
    assert (len(log.rounds) == 10) != (log.ended_s == 900)


def test_what_follows_from_the_criteria() -> None:
    """A stop answers what others ask of it."""
    rounds, duration, both = Stop(rounds=200), Stop(duration=7200.0), Stop(rounds=200, duration=7200.0)
    assert [each.most_rounds for each in (rounds, duration, both)] == [200, float("inf"), 200]
    assert [each.sure_rounds(60.0, 3) for each in (rounds, duration, both)] == [200, 120, 120]
    assert [each.sure_rounds(float("inf"), 3) for each in (rounds, duration, both)] == [200, 0, 0]
    assert both.times(3) == {"rounds": 600, "duration": "6h"}
    assert both.within(Stop(duration=60.0)) == {"rounds": 200, "duration": "1m"}
    assert both.cut(7) == Stop(rounds=7, duration=7200.0)
    assert [each.most_s for each in (rounds, duration, both)] == [float("inf"), 7200, 7200]
    half = Counts(50, 0, 0)
    assert [each.share(half, 3600) for each in (rounds, duration, both)] == [0.25, 0.5, 0.5]
    assert both.share(Counts(400, 0, 0), 0) == 1
    assert [each.key for each in (rounds, duration, both)] == ["rounds", "duration", "rounds"]
    assert [each.in_words() for each in (rounds, duration, both)] == ["200 rounds", "2h", "200 rounds or 2h"]
    assert both.horizon == 7_200_000
    others = Stop.model_fields.keys() - {"rounds", "duration"}
    assert [each.by_length for each in (rounds, duration, both)] == [True] * 3
    assert not any(both.model_copy(update={name: 5}).by_length for name in others)
    assert both.model_dump() == {"rounds": 200, "duration": "2h"}  # as before there was a limit on reports


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("server", SERVERS)
def test_enough_reports_end_a_run(server: str, engine: str, write: Write) -> None:
    """At the close of the round or version in which they are reached; budget, progress and pilot know of them."""
    stop = Stop(rounds=10**9, reports=100)
    log = log_of(server, engine, stop)
    reports = log.rounds["reported"].cum_sum().to_list()
    assert reports[-1] >= 100 > reports[-2]
    assert stop.share(Counts(34, 110, 75), 0.0) == 0.75
    assert stop.in_words() == "1,000,000,000 rounds or 100 reports"
    text = f"stop: {{rounds: 1000000000, reports: 30}}\npopulation: [{{devices: 9}}]\nserver: {SERVERS[server]}\n"
    scenario = Scenario.load(write(text))
    check_log_size(scenario)
    guess = pilot(scenario, 60.0)
    assert guess is not None
    assert guess.seconds < 60.0
    shares: list[float] = []
    simulate(scenario, report=lambda what, share, _="": shares.append(share) if what == "simulating" else None)
    assert max(shares) > 0.5


def test_nobody_else_knows_the_criteria() -> None:
    """No other module reads `stop.rounds`, `stop.duration` or which there are: it asks what follows from them."""
    names = {*Stop.model_fields, "_criteria"}
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in names and name != "fedsim.scenario.stop":
                owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                assert owner != "stop", f"{file}:{node.lineno}"
