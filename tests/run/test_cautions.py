"""What a person is warned of: separations that outlast the run, cool-downs within a day, and runs of mere chance."""

import pytest

from fedsim import simulate
from fedsim.run.cautions import of_separation, of_sessions, of_shortage, why_nothing
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from tests.conftest import Load


def cautions(scenario: Scenario) -> list[str]:
    population = preflight(scenario).population
    return [each.text for each in of_separation(scenario, population.separation, population.cooldown_s)]


ONCE = "can take part once at most before the run ends"
HABITS = "population.0.availability=habits"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stop.rounds=4", "population.0.separation=3"], f"Every client {ONCE}"),
        (["stop.rounds=4", "population.0.separation=[0,0,0,0,0,0,0,0,0,2,3,3]"], f"2 of 12 clients {ONCE}"),
        (["stop={duration: 1h}", "server.pause=1m", "population.0.cooldown=2h"], f"Every client {ONCE}"),
        (
            ["stop.rounds=4", "population.0.separation=3", "server.cooldown_from=reported"],
            "Every client can report once at most",
        ),
        (["stop.rounds=3"], "The run can reach 9 of 12 clients at most"),
        ([HABITS, "population.0.cooldown=11.6h"], "A cool-down of 11.6 h is shorter than a day"),
        (
            ["stop.rounds=4", "population.0.separation=3", "server={mode: buffered, concurrency: 3, buffer: 3}"],
            f"Every client {ONCE}",
        ),
    ],
)
def test_settings_that_are_probably_mistakes_are_cautioned(small: Load, overrides: list[str], words: str) -> None:
    (said,) = [each for each in cautions(small("population.0.separation=0", *overrides)) if words in each]
    assert said.endswith(".")


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["stop.rounds=5", "population.0.separation=3"],
        ["stop.rounds=4", "population.0.separation=0"],
        ["population.0.cooldown=11h"],
        [HABITS, "population.0.cooldown=24h"],
        [HABITS],
        ["stop={duration: 2h}", "server.pause=1m", "population.0.cooldown=1h59m"],
    ],
)
def test_sound_settings_have_no_caution(small: Load, overrides: list[str]) -> None:
    assert cautions(small("population.0.separation=0", *overrides)) == []


def test_separations_that_outlast_their_clients_are_told_where_the_run_may_end_before(small: Load) -> None:
    """With a duration and sessions of random length nobody knows how many rounds there will be."""
    scenario = small(
        "stop={duration: 1h}", "population.0.separation=9", "population.0.session.train={kind: exponential, mean: 5m}"
    )
    (said,) = of_shortage(preflight(scenario))
    assert "can be kept for less than 5 rounds: clients can take part 12 times in these, which need 15" in said.text


QUADRATIC = "learning={problem: {kind: quadratic}, optimizers: [fedavg], step_size: 0.1}"
LATE = ["population.0.session={train: 20m}", "server.deadline=10m"]


def test_a_deadline_that_the_median_session_misses_is_told(small: Load) -> None:
    scenario = small(*LATE)
    (said,) = of_sessions(preflight(scenario))
    assert said.text.startswith("100% of the sessions would be late: the median takes 20")
    half = small("population.0.session={train: {kind: lognormal, median: 11m, sigma: 1}}", "server.deadline=10m")
    (said,) = of_sessions(preflight(half))
    assert "% of the sessions would be late" in said.text
    for fits in (small("server.deadline=1h"), small()):
        assert not list(of_sessions(preflight(fits)))


@pytest.mark.parametrize(
    ("overrides", "taken"),
    [
        (["server.deadline=1h"], 5),
        (["population.0.session.speed=[1,1,1,1,1,1,1,1,1,1,2,2]"], 5),
        (["server.over_select=1"], 3),
        (["population.0.session.train={kind: lognormal, median: 60s, sigma: 0.5}"], 3),
        (["population.0.session.train=20m", "server.deadline=10m"], 0),
        (["server.grace=1m"], 5),  # which asks for it
    ],
)
def test_over_selection_of_sessions_that_end_together_is_told(small: Load, overrides: list[str], taken: int) -> None:
    scenario = small("population.0.separation=0", "server.over_select=1.6", *overrides)
    cautions = [each.text for each in of_sessions(preflight(scenario)) if each.name == "surplus"]
    assert simulate(scenario).metrics["rounds.reported_mean"] == pytest.approx(taken, abs=0.3)
    assert bool(cautions) == (taken > 3 and "server.grace=1m" not in overrides)
    assert all(each.startswith(f"A round takes about {taken} reports and wants 3") for each in cautions)


def test_a_run_without_a_report_is_told_with_what_became_of_its_sessions(small: Load) -> None:
    late = simulate(small(*LATE, QUADRATIC))
    assert late.failure == "all 180 sessions missed the 10 min deadline"
    assert why_nothing(late.metrics) == "all 180 sessions missed the deadline"
    some = late.metrics | {"sessions.late_share": 0.5, "sessions.dropped_share": 0.5}
    assert why_nothing(some) == "no report was taken of 180 sessions in 60 rounds (90 dropped, 90 late)"
    assert late.metrics["learning.fedavg.converged"] == 0
    failed = simulate(small(QUADRATIC, "server.deadline=10m", "server.minimum_reports=3", "server.cohort=3"))
    assert why_nothing(failed.metrics) == ""
    assert why_nothing({"sessions.count": 0.0, "rounds.count": 4.0}) == "nobody was selected in 4 rounds"
