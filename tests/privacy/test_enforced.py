"""What is promised is what is enforced: random runs of both servers keep it, and what is luck is not promised."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.arrays import Floats
from fedsim.common.errors import ScenarioError, StalledError
from fedsim.learning.private import caveats
from fedsim.measure.contributions import contributions
from fedsim.population import build_population
from fedsim.privacy.bounds import broken_by_clients, broken_promises, enforced_bounds
from fedsim.privacy.sensitivity import sensitivity
from fedsim.run.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_log
from tests.conftest import Load
from tests.privacy.test_sensitivity import toeplitz
from tests.scenarios import buffered_scenarios, scenarios

RUNS = int(os.environ.get("FEDSIM_ENFORCEMENT", "50"))  # `make enforcement` has 500


def series(kind: int, rounds: int, b: int) -> Floats:
    """Return the first column of a C; the last one falls in any order within b rounds."""
    steps = np.arange(rounds, dtype=np.float64)
    return np.asarray((1 / (1 + steps), 0.9**steps, np.ones(rounds), np.cos(steps[: min(rounds, b)]))[kind])


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=RUNS)
def test_random_runs_keep_it_and_no_client_moves_more_than_is_stated(data: st.DataObject) -> None:
    """Both servers, with caps and cycles: by each client's rounds in the log, and dense matrices of C."""
    scenario = data.draw(st.one_of(scenarios(), buffered_scenarios()))
    changes: dict[str, Any] = {}
    if data.draw(st.booleans()):
        caps = [{"most": data.draw(st.integers(1, 12))} for _ in scenario.population]
        changes |= {f"population.{index}.participations": cap for index, cap in enumerate(caps)}
    if scenario.server.selects_once and data.draw(st.booleans()):
        groups = data.draw(st.integers(1, 5))
        selection = data.draw(st.sampled_from(["poisson", {"kind": "cyclic_poisson", "groups": groups}]))
        changes |= {"server.selection": selection, "server.over_select": 1, "server.minimum_reports": 0}
        changes |= {"server.shortage": "wait", "server.pause": "7s"}
    server: Any = (scenario := scenario.with_values(changes)).server
    population = build_population(scenario)
    promises_nothing = (
        not server.selects_once
        and server.cooldown_from == "selected"
        and (server.max_staleness is None or server.max_staleness > int(population.separation.min()))
    )
    if promises_nothing:
        with pytest.raises(ScenarioError, match=r"server\.cooldown_from: nothing is promised"):
            enforced_bounds(scenario, population)
        server = (scenario := scenario.with_values({"server.cooldown_from": "reported"})).server
    bounds = enforced_bounds(scenario, population)
    try:
        log = simulate_log(scenario, population)
    except StalledError as stalled:
        log = stalled.log
    took = pl.DataFrame(log.participations).filter(pl.col("outcome").cast(pl.String) == "reported")
    at = took["round"].to_numpy() + (took["staleness"].to_numpy() if "staleness" in took.columns else 0)
    pattern = np.zeros((bounds.rounds, len(population)))
    np.add.at(pattern, (at, took["client"].to_numpy()), 1.0)
    seen = contributions(log.participations, len(population))
    assert broken_promises(bounds, seen) == []
    if population.most is not None:
        assert broken_by_clients(bounds, population.separation, population.most, log.participations) == []
    for kind in range(4):
        c = series(kind, bounds.rounds, bounds.min_separation)
        moved = np.linalg.norm(toeplitz(c, bounds.rounds) @ pattern, axis=0)
        assert moved.max() <= sensitivity(c, bounds) * (1 + 1e-9)


def test_a_client_that_breaks_its_own_bounds_is_told(small: Load) -> None:
    """Ten phones come back after ten rounds, and two tablets at once, three times."""
    mixed = small(
        "population.0.separation=[0,0,9,9,9,9,9,9,9,9,9,9]",
        "population.0.participations={most: [3,3,6,6,6,6,6,6,6,6,6,6]}",
    )
    population = build_population(mixed)
    bounds = enforced_bounds(mixed, population)
    assert bounds.pairs == ((1, 3), (10, 6))
    assert population.most is not None

    def sentences(client: int, rounds: list[int]) -> list[str]:
        log = pl.DataFrame({"round": rounds, "client": client, "outcome": "reported"})
        assert broken_promises(bounds, contributions(log, 12)) == []  # all within the smallest b and the largest k
        assert population.most is not None
        return broken_by_clients(bounds, population.separation, population.most, log)

    assert sentences(1, [3, 4, 5]) == []
    (sentence,) = sentences(5, [3, 12])
    assert sentence == "client 5 contributed in round 3 and again in round 12, and its own b = 10 was promised"
    (sentence,) = sentences(0, [3, 4, 5, 6])
    assert sentence == "client 0 contributed 4 times, and its own k = 3 was promised"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("population.*.separation=4", (60, 5, 12)),
        ("population.*.separation={kind: uniform, low: 1, high: 3}", (60, 2, 30)),
        ("population.*.cooldown=6h", (60, 3, 20)),
        ("stop={rounds: 61, duration: 3d}", (61, 3, 21)),
    ],
)
def test_enforced_bounds_are_those_of_the_scenario(small: Load, change: str, expected: tuple[int, int, int]) -> None:
    scenario = small(change)
    bounds = enforced_bounds(scenario, build_population(scenario))
    assert (bounds.rounds, bounds.min_separation, bounds.participations) == expected


PRIVATE = "privacy={mechanism: sqrt, epsilon: 8, delta: 1e-3}"


def test_rounds_that_nothing_limits_are_luck(small: Load) -> None:
    scenario = small("stop={duration: 3h}", "server.pause=1m", PRIVATE)
    with pytest.raises(ScenarioError, match=r"stop: privacy needs stop\.rounds: .* with a duration alone it is luck"):
        preflight(scenario)


def refusal(scenario: Scenario) -> str:
    return "\n".join(caveats(scenario, build_population(scenario)))


LEARNING = "learning={problem: quadratic, optimizers: [fedavg, %s], step_size: 0.1}"
OWN_LAW = (
    "class Law:\n    def select(self, request, candidates):\n        return candidates.eligible()[: request.count]\n"
)
BUFFERED = "server={mode: buffered, concurrency: 3, buffer: 2, cooldown_from: reported}"


@pytest.mark.parametrize(
    ("words", "so", "not_so"),
    [
        ("cool-downs by the clock count for nothing: .* so b = 3 is", "population.*.cooldown=6h", "seed=1"),
        ("a round is a version of the buffered server", BUFFERED, "seed=1"),
        ("the selection law 'blind_law:Law' does not look at", "server.selection={kind: 'blind_law:Law'}", "seed=1"),
        ("training here neither clips nor adds noise", LEARNING % "debiased_fedavg", "seed=1"),
        ("optimizer 'mifa' releases stored updates again", LEARNING % "mifa", LEARNING % "debiased_fedavg"),
        ("optimizer 'scaffold' releases stored updates again", LEARNING % "scaffold", LEARNING % "amplified_fedavg"),
        ("optimizer 'focus' releases stored updates again", LEARNING % "focus", LEARNING % "fedprox"),
        ("'amplified_scaffold' releases stored updates again", LEARNING % "amplified_scaffold", "seed=1"),
        ("optimizer 'ace' releases stored updates again", LEARNING % "ace", LEARNING % "fedawe"),
        ("optimizer 'area' releases stored updates again", LEARNING % "area", LEARNING % "fadas"),
        ("delta = 0.1 is not below one over .* clients \\(12\\)", "privacy.delta=0.1", "privacy.delta=0.08"),
    ],
)
def test_each_caveat_is_said_where_it_is_so(
    small: Load, monkeypatch: pytest.MonkeyPatch, words: str, so: str, not_so: str
) -> None:
    import re

    file = small_file(small)
    Path(file).with_name("blind_law.py").write_text(OWN_LAW)
    monkeypatch.syspath_prepend(Path(file).parent)
    where, elsewhere = (Scenario.load(file, [PRIVATE, each], allow_plugins=True) for each in (so, not_so))
    assert re.search(words, refusal(where))
    assert not re.search(words, refusal(elsewhere))


def small_file(small: Load) -> str:
    return str(small()._document.folder / "case.fedsim.yaml")


def test_nothing_is_said_where_nothing_is_left_out(small: Load) -> None:
    assert refusal(small(PRIVATE)) == ""


def test_with_caps_each_client_is_held_to_its_own_bounds(small: Load) -> None:
    """Twelve clients; those whose bounds another one's contain are left out."""
    mixed = small(
        "population.0.separation=[0,0,3,3,3,3,3,9,9,9,9,9]",
        "population.0.participations={most: [5,4,9,9,9,9,9,3,3,3,3,3]}",
    )
    bounds = enforced_bounds(mixed, build_population(mixed))
    assert (bounds.min_separation, bounds.participations, bounds.pairs) == (1, 9, ((1, 5), (4, 9)))
    alike = small("population.0.participations={most: 5}")
    assert enforced_bounds(alike, build_population(alike)).pairs == ()
