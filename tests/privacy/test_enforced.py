"""What is promised is what is enforced: random runs of both servers keep it, and what is luck is not promised."""

from typing import Any

import pytest
from hypothesis import given

from fedsim.analysis.contributions import contributions
from fedsim.common.errors import ScenarioError, StalledError
from fedsim.experiment.preflight import preflight
from fedsim.learning.private import caveats
from fedsim.population import build_population
from fedsim.privacy.bounds import enforced_bounds
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from tests.conftest import Load
from tests.scenarios import buffered_scenarios, scenarios


def kept(scenario: Scenario) -> None:
    """See that a run of the scenario keeps what the scenario promises."""
    population = build_population(scenario)
    bounds = enforced_bounds(scenario, population)
    try:
        log = simulate_log(scenario, population)
    except StalledError:
        return
    seen = contributions(log.participations, len(population))
    assert seen.last_round < bounds.rounds
    assert seen.least_separation is None or seen.least_separation >= bounds.min_separation
    assert seen.most <= bounds.participations


@pytest.mark.long
@given(scenario=scenarios())
def test_synchronous_rounds_keep_it(scenario: Scenario) -> None:
    kept(scenario)


@pytest.mark.long
@given(scenario=buffered_scenarios())
def test_a_buffered_server_keeps_it_or_promises_nothing(scenario: Scenario) -> None:
    server: Any = scenario.server
    population = build_population(scenario)
    late = server.cooldown_from == "selected" and (
        server.max_staleness is None or server.max_staleness > int(population.separation.min())
    )
    if late:
        with pytest.raises(ScenarioError, match=r"server\.cooldown_from: nothing is promised"):
            enforced_bounds(scenario, population)
    else:
        kept(scenario)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("population.*.separation=4", (60, 5, 12)),
        ("population.*.separation={kind: uniform, low: 1, high: 3}", (60, 2, 30)),
        ("population.*.cooldown=6h", (60, 3, 20)),
        ("stop={rounds: 61, duration: 3d}", (61, 3, 21)),
    ],
)
def test_bounds(small: Load, change: str, expected: tuple[int, int, int]) -> None:
    scenario = small(change)
    bounds = enforced_bounds(scenario, build_population(scenario))
    assert (bounds.rounds, bounds.min_separation, bounds.participations) == expected


PRIVATE = "privacy={mechanism: sqrt, epsilon: 8, delta: 1e-3}"


def test_rounds_that_nothing_limits_are_luck(small: Load) -> None:
    scenario = small("stop={duration: 3h}", "server.pause=1m", PRIVATE)
    with pytest.raises(ScenarioError, match=r"stop: privacy needs stop\.rounds: .* with a duration alone it is luck"):
        preflight(scenario)


def said(scenario: Scenario) -> str:
    return "\n".join(caveats(scenario, build_population(scenario)))


LEARNING = "learning={problem: quadratic, optimizers: [fedavg, %s], step_size: 0.1}"
BUFFERED = "server={mode: buffered, concurrency: 3, buffer: 2, cooldown_from: reported}"


@pytest.mark.parametrize(
    ("told", "so", "not_so"),
    [
        ("cool-downs by the clock count for nothing: .* so b = 3 is", "population.*.cooldown=6h", "seed=1"),
        ("a round is a version of the buffered server", BUFFERED, "seed=1"),
        ("the selection law 'own:Law' does not look at", "server.selection={kind: 'own:Law'}", "seed=1"),
        ("training here neither clips nor adds noise", LEARNING % "debiased_fedavg", "seed=1"),
        ("optimizer 'mifa' releases stored updates again", LEARNING % "mifa", LEARNING % "debiased_fedavg"),
        ("optimizer 'scaffold' releases stored updates again", LEARNING % "scaffold", LEARNING % "amplified_fedavg"),
        ("optimizer 'focus' releases stored updates again", LEARNING % "focus", LEARNING % "fedprox"),
        ("'amplified_scaffold' releases stored updates again", LEARNING % "amplified_scaffold", "seed=1"),
        ("optimizer 'ace' releases stored updates again", LEARNING % "ace", LEARNING % "fedawe"),
        ("optimizer 'area' releases stored updates again", LEARNING % "area", LEARNING % "fadas"),
        ("delta = 0.1 is more than one over .* clients \\(12\\)", "privacy.delta=0.1", "privacy.delta=0.08"),
    ],
)
def test_each_caveat_is_said_where_it_is_so(small: Load, told: str, so: str, not_so: str) -> None:
    import re

    where, elsewhere = (Scenario.load(small_file(small), [PRIVATE, each], allow_plugins=True) for each in (so, not_so))
    assert re.search(told, said(where))
    assert not re.search(told, said(elsewhere))


def small_file(small: Load) -> str:
    return str(small()._document.folder / "case.fedsim.yaml")


def test_nothing_is_said_where_nothing_is_left_out(small: Load) -> None:
    assert said(small(PRIVATE)) == ""


def test_with_caps_each_client_is_held_to_its_own_bounds(small: Load) -> None:
    """Twelve clients; those whose bounds another one's contain are left out."""
    mixed = small(
        "population.0.separation=[0,0,3,3,3,3,3,9,9,9,9,9]",
        "population.0.participations={most: [5,4,9,9,9,9,9,3,3,3,3,3]}",
    )
    bounds = enforced_bounds(mixed, build_population(mixed))
    assert (bounds.min_separation, bounds.participations, bounds.own) == (1, 9, ((1, 5), (4, 9)))
    alike = small("population.0.participations={most: 5}")
    assert enforced_bounds(alike, build_population(alike)).own == ()
