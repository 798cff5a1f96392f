"""The key `sweep`: what it takes, and what it refuses, where."""

import pytest

from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import matches
from fedsim.trials.plan import points_of
from tests.conftest import SMALL, Write


@pytest.mark.parametrize(
    ("sweep", "complaint"),
    [
        ("{gird: {server.cohort: [1]}}", ":5:9: error: sweep.gird: unknown key; did you mean 'grid'?"),
        ("{grid: {server.cohort: []}}", ":5:31: error: sweep.grid.server.cohort: must have at least 1 items"),
        ("{grid: {server.cohort: 3}}", ":5:31: error: sweep.grid.server.cohort: must be a list, not 3"),
        ("{grid: {seed: [1, 2]}}", "'seed' cannot be swept; give `seeds` instead"),
        ("{grid: {name: [a, b]}}", "'name' cannot be swept"),
        ("{grid: {sweep.seeds: [1, 2]}}", "'sweep.seeds' cannot be swept"),
        ("{grid: {decide.minimize: [rounds.count]}}", "'decide.minimize' cannot be swept"),
        ("{grid: {server.pause: [.inf]}}", "the values of 'server.pause' must be finite"),
        ("{grid: {a: [1]}, zip: {a: [1]}}", "'a' is in `grid` and in `zip`"),
        ("{zip: {a: [1], b: [1, 2]}}", "equally long, but 'a' has 1, 'b' has 2"),
        ("{zip: {server.cohort: [1, 2]}, tuned: [server.pause]}", "`tuned` names 'server.pause', which is not under"),
        ("{zip: {server.cohort: [1, 2]}, tuned: [server.cohort]}", "must tell its settings apart"),
        (
            "{zip: {server.cohort: [1, 1], server.pause: [1s, 2s]}, tuned: [server.pause]}",
            "must tell its settings apart",
        ),
        ("{grid: {server.cohort: [1]}, exclude: [{server.cohrt: 1}]}", "did you mean 'server.cohort'?"),
        ("{seeds: 0}", "sweep.seeds: must be at least 1, not 0"),
        ("{seeds: [4, 5, 4]}", "has 4 twice"),
        ("{seeds: [-1]}", "must be at least 0, not -1"),
        ("{seeds: 1000000000000}", "must be at most 100000"),
    ],
)
def test_mistakes_in_the_key(write: Write, sweep: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(write(f"{SMALL}sweep: {sweep}\n"))
    assert complaint in str(caught.value)


def test_more_points_than_memory_are_refused(write: Write) -> None:
    lists = ", ".join(f"a{index}: [{', '.join(map(str, range(100)))}]" for index in range(20))
    with pytest.raises(ScenarioError, match="at most 100,000 are possible"):
        Scenario.load(write(f"{SMALL}sweep: {{grid: {{{lists}}}}}\n"))


@pytest.mark.parametrize(
    ("sweep", "complaint"),
    [
        ("{grid: {server.cohrt: [1]}}", ":5:31: error: server.cohrt: unknown key; did you mean 'cohort'?"),
        ("{grid: {server.cohort: [1, 13]}}", "a round wants 13 clients"),
        ("{grid: {server.cohort: [1, two]}}", ":5:35: error: server.cohort: must be a whole number, not 'two'"),
        ("{grid: {population.7.separation: [1]}}", ":5:42: error: population: is a list; '7' is none of its items"),
        ("{grid: {population.*.separation: [1, 40]}}", "population[0].separation: separation 40 can never be kept"),
        ("{grid: {server.cohort: [1]}, exclude: [{server.cohort: 1}]}", "leaves no point to run"),
        (
            f"{{grid: {{server.pause: [{', '.join(f'{s}s' for s in range(11))}]}}, seeds: 100000}}",
            "makes 1,100,000 runs",
        ),
        ("{grid: {server.cohort: [3, 9]}}", ":3:66: error: population[0].separation: separation 2 can never be kept"),
        ("{grid: {server.cohort: [3, 9]}}", "is 0 (at server.cohort: 9)"),
        ("{grid: {'': [1]}}", "'' is not a path"),
    ],
)
def test_mistakes_at_a_point_are_shown_where_its_value_is_written(write: Write, sweep: str, complaint: str) -> None:
    scenario = Scenario.load(write(f"{SMALL}sweep: {sweep}\n"))
    with pytest.raises(ScenarioError) as caught:
        points_of(scenario)
    assert complaint in str(caught.value)
    assert all(mistake.place.count(":") == 2 for mistake in caught.value.mistakes)


def test_every_mistake_of_every_point_is_told_once(write: Write) -> None:
    sweep = "{grid: {server.cohort: [1, 20, 2, 30], population.*.separation: [0, -1]}}"
    with pytest.raises(ScenarioError) as caught:
        points_of(Scenario.load(write(f"{SMALL}sweep: {sweep}\n")))
    places = [mistake.place.rpartition(":")[2] for mistake in caught.value.mistakes]
    assert len(caught.value.mistakes) == len(set(caught.value.mistakes))
    assert len(set(places)) == 3


def test_a_list_excludes_any_of_its_values_and_truth_is_no_number() -> None:
    assert matches(4, [3, 4])
    assert not matches(4, [3, 5])
    assert matches([1, 2], [1, 2])
    assert not matches(1, True)
    assert matches(4, 4.0)
