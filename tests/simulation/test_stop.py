"""When a run ends, and that a criterion which nothing in the package knows ends runs as the built-in ones do."""

import polars as pl
import pytest

from fedsim.log.recorder import InMemoryLog
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.scenario.stop import Counts, Stop
from fedsim.simulation import simulate_log

_DAY_S = 86_400.0
ENGINES = ["process", "vectorized"]
SERVERS = {"rounds": {"cohort": 3, "pause": "1m"}, "buffered": {"mode": "buffered", "concurrency": 4, "buffer": 3}}


class ParticipationStop(Stop):
    """Ends a run when enough participations have begun."""

    participations: int

    def reached(self, counts: Counts) -> bool:
        return super().reached(counts) or counts.participations >= self.participations


def log_of(server: str, engine: str, stop: Stop) -> InMemoryLog:
    base = {"population": [{"devices": 20, "weight": {"kind": "zipf", "exponent": 1}}], "stop": {"duration": "1d"}}
    scenario = Scenario.model_validate({**base, "server": SERVERS[server]})
    scenario = scenario.model_copy(update={"engine": engine, "stop": stop})
    return simulate_log(scenario, build_population(scenario))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("server", SERVERS)
def test_a_criterion_of_ones_own_ends_a_run(server: str, engine: str) -> None:
    """The run is the beginning of a longer one, and ends with the first selection that reaches the criterion."""
    own = log_of(server, engine, ParticipationStop(duration=_DAY_S, participations=100))
    longer = log_of(server, engine, Stop(duration=_DAY_S))
    most = SERVERS[server].get("concurrency", 3)
    assert 100 <= len(own.participations) < 100 + int(str(most))
    begun = ("round", "client", "position", "selected_s")
    assert own.participations.select(begun).equals(longer.participations.select(begun).head(len(own.participations)))
    assert own.ended_s < longer.ended_s
    assert own.participations["ended_s"].null_count() == 0
    assert set(own.rounds["outcome"]) <= {"target", "stopped"}
    assert own.rounds.filter(pl.col("outcome") == "stopped").height == (server == "buffered")


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
    assert [each.at_most(300) for each in (rounds, duration, both)] == [200, 300, 200]
    assert [each.most_s for each in (rounds, duration, both)] == [float("inf"), 7200, 7200]
    assert [each.share(50, 3600) for each in (rounds, duration, both)] == [0.25, 0.5, 0.5]
    assert both.share(400, 0) == 1
    assert [each.key for each in (rounds, duration, both)] == ["rounds", "duration", "rounds"]
    assert [each.in_words() for each in (rounds, duration, both)] == ["200 rounds", "2h", "200 rounds or 2h"]
    assert both.horizon == 7_200_000
