"""The laws poisson, age and stratified: against code of their own, in both engines, and poisson against its theory."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim import participation_theory, simulate
from fedsim.common.errors import ChainError, ScenarioError
from fedsim.log.recorder import InMemoryLog
from fedsim.population import build_population
from fedsim.scenario import Scenario
from fedsim.selection import Candidates, theory_of
from fedsim.selection.built_in import rounded_quotas
from fedsim.simulation import simulate_log
from fedsim.theory import Stationary, stationary
from fedsim.theory.closed_form import closed_form
from fedsim.theory.prediction import theory_or_why_not
from tests.selection.cases import Among, law_of, request, shown

MIXED = [
    {"name": "a", "devices": 9, "separation": 1, "availability": {"kind": "renewal", "on": "20m", "off": "10m"}},
    {"name": "b", "devices": 15, "session": {"train": {"kind": "exponential", "mean": "40s"}, "speed": 2}},
]
SYNC = {"cohort": 4, "over_select": 1.3, "deadline": "2m", "pause": "7s"}
BUFFERED = {"mode": "buffered", "concurrency": 9, "buffer": 3, "cooldown_from": "reported"}


def scenario(law: str, server: dict[str, Any], groups: Any = MIXED, rounds: int = 80) -> Scenario:
    data = {"stop": {"rounds": rounds}, "population": groups, "server": {**server, "selection": law}}
    return Scenario.model_validate(data)


def logged(case: Scenario, engine: str) -> InMemoryLog:
    case = case.model_copy(update={"engine": engine})
    return simulate_log(case, build_population(case))


@pytest.mark.parametrize(
    ("law", "server"),
    [
        (law, server)
        for law in ("age", "stratified", "inverse_availability")
        for server in (SYNC, {**SYNC, "shortage": "proceed"}, BUFFERED)
    ]
    + [("poisson", SYNC), ("poisson", {**SYNC, "shortage": "proceed", "cohort": 20})],
)
def test_both_engines_write_the_same_tables(law: str, server: dict[str, Any]) -> None:
    case = scenario(law, server)
    process, vectorized = logged(case, "process"), logged(case, "vectorized")
    for name in ("rounds", "participations", "gauges"):
        assert getattr(process, name).equals(getattr(vectorized, name))
    assert len(process.rounds) == 80


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 4)), min_size=1, max_size=20), st.integers(1, 20))
def test_age_takes_who_waited_longest(clients: list[tuple[bool, int]], count: int) -> None:
    """Nobody left out was selected before somebody chosen; and the order is that of the ages."""
    mask, last = [each for each, _ in clients], np.array([each for _, each in clients])
    law = law_of("age", np.full(len(last), 1 / len(last)), 1, 0)
    chosen = law.select(request(3, count), shown(mask, last))
    ready = sorted(np.flatnonzero(mask), key=lambda client: last[client])
    assert [last[client] for client in chosen] == [last[client] for client in ready[:count]]
    assert len(set(chosen.tolist())) == min(count, sum(mask))
    assert all(mask[client] for client in chosen)


def test_clients_of_the_same_age_are_drawn() -> None:
    law, everyone = law_of("age", np.full(6, 1 / 6), 2, 0), shown(np.ones(6, bool))
    first = np.array([law.select(request(number, 2), everyone)[0] for number in range(3000)])
    np.testing.assert_allclose(np.bincount(first, minlength=6) / 3000, 1 / 6, atol=0.025)


@pytest.mark.long
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.integers(1, 30), st.floats(0.001, 0.999))
def test_quotas_are_rounded_and_sum_to_the_cohort(weights: list[float], size: int, draw: float) -> None:
    expected = np.array(weights) / sum(weights) * size
    quotas = rounded_quotas(expected, draw)
    assert quotas.sum() == size
    assert (np.abs(quotas - expected) < 1 + 1e-9).all()
    average = np.mean([rounded_quotas(expected, (step + 0.5) / 2000) for step in range(2000)], axis=0)
    np.testing.assert_allclose(average, expected, atol=2e-3)


@pytest.mark.long
def test_stratified_gives_each_group_its_share_and_goes_by_weight_within() -> None:
    """Three groups of 2, 4 and 6 clients; within a group the law is Plackett-Luce, counted one by one."""
    groups = np.repeat([0, 1, 2], [2, 4, 6])
    weights = np.array([3, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1]) / 16.0
    everyone = shown(np.ones(12, bool))
    object.__setattr__(everyone._population, "group", groups)
    law = law_of("stratified", weights, 4, 0)
    chosen = np.array([law.select(request(number, 4), everyone) for number in range(6000)])
    counts = np.array([np.bincount(groups[row], minlength=3) for row in chosen])
    share = np.bincount(groups, weights) * 4  # 1, 1.5, 1.5
    assert (counts[:, 0] == 1).all()
    assert set(counts[:, 1]) == {1, 2}
    np.testing.assert_allclose(counts.mean(axis=0), share, atol=0.02)
    assert np.mean((chosen == 0).any(axis=1)) == pytest.approx(0.75, abs=0.02)  # against client 1: 3 to 1
    alone = counts[:, 1] == 1  # one of group 1: weights 2, 1, 1, 2
    picked = [row[groups[row] == 1][0] for row in chosen[alone]]
    np.testing.assert_allclose(
        np.bincount(picked, minlength=6)[2:] / len(picked), [1 / 3, 1 / 6, 1 / 6, 1 / 3], atol=0.03
    )


def test_places_that_a_group_cannot_fill_go_to_others() -> None:
    everyone = shown([False, False, True, True, True, True])
    object.__setattr__(everyone._population, "group", np.repeat([0, 1], [3, 3]))
    law = law_of("stratified", np.full(6, 1 / 6), 4, 0)
    for number in range(50):
        assert sorted(law.select(request(number, 4), everyone).tolist()) == [2, 3, 4, 5]


def test_poisson_takes_each_by_itself() -> None:
    """The chance is B p_i whoever else is eligible, and choices are independent."""
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    law = law_of("poisson", weights, 2, 0)
    for mask in ([True] * 4, [True, False, True, False]):
        candidates = Candidates(Among(np.array(mask)), shown(mask)._population, lambda clients: clients)
        taken = np.zeros((6000, 4))
        for number in range(6000):
            taken[number, law.select(request(number, 2), candidates)] = 1
        np.testing.assert_allclose(taken.mean(axis=0), 2 * weights * mask, atol=0.02)
        if all(mask):
            np.testing.assert_allclose(np.corrcoef(taken.T), np.eye(4), atol=0.05)


def test_renewals_equal_a_walk_through_rounds() -> None:
    """Independent code: one client alone, round by round; any separations, also those no cohort could keep."""
    weights, rounds = np.array([5.0, 3.0, 1.0, 1.0]), np.array([0, 30, 2, 7])
    found = closed_form(weights, rounds, 2, "poisson")
    draws, counts = np.random.default_rng(5), np.zeros(4)
    for client, (p, r) in enumerate(zip(weights / 10, rounds, strict=True)):
        wait = 0
        for u in draws.random(60_000):
            wait = max(wait - 1, 0)
            if not wait and u < min(1, 2 * p):
                counts[client] += 1
                wait = r + 1
    np.testing.assert_allclose(found.pi, counts / counts.sum(), rtol=0.05)
    assert (found.method, found.law, found.cohort) == ("closed-form", "poisson", 2)
    assert stationary(weights, rounds, 2, "poisson").pi.tolist() == found.pi.tolist()
    with pytest.raises(ChainError, match="by the method 'closed-form' alone"):
        stationary(weights, rounds, 2, "poisson", "monte-carlo")
    with pytest.raises(ChainError, match="the cohort is 5, more than the 4 clients"):
        closed_form(weights, 0, 5, "poisson")


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_a_run_agrees_with_theory(engine: str) -> None:
    """Separations that the server could never wait for: rounds are small or empty, and nobody waits."""
    groups = [
        {"devices": 3, "weight": 5, "separation": 2},
        {"devices": 5, "weight": 1, "separation": 40},
        {"devices": 4, "weight": 2},
    ]
    case = scenario("poisson", {"cohort": 4}, groups, 6000)
    population, log = build_population(case), logged(case, engine)
    theory = theory_or_why_not(case, population)
    assert isinstance(theory, Stationary)
    counts = np.bincount(log.participations["client"].to_numpy(), minlength=12)
    np.testing.assert_allclose(counts / counts.sum(), theory.pi, rtol=0.12)
    assert set(log.rounds["outcome"]) == {"target", "empty"}
    assert ((log.rounds["selected"] == 0) == (log.rounds["outcome"] == "empty")).all()
    assert (log.rounds["opened_s"] == log.rounds["selected_s"]).all()
    gaps = log.participations.drop_nulls("gap").group_by("client").agg(pl.col("gap").min()).sort("client")
    assert gaps["gap"].to_numpy()[:8].tolist() == [3] * 3 + [41] * 5
    asked = participation_theory(case)
    assert asked.pi.tolist() == theory.pi.tolist()


def test_what_the_laws_cannot_do() -> None:
    with pytest.raises(ValueError, match="'poisson' chooses a random number of clients"):
        scenario("poisson", BUFFERED)
    with pytest.raises(ValueError, match="empty rounds take no time: give stop"):
        Scenario.model_validate(
            {"stop": {"duration": "1d"}, "population": MIXED, "server": {"cohort": 4, "selection": "poisson"}}
        )
    for law in ("age", "stratified", "inverse_availability"):
        case = scenario(law, SYNC)
        assert theory_of(case.server.selection) is None
        with pytest.raises((ChainError, ScenarioError), match="no theory covers the selection law"):
            participation_theory(case)


@pytest.mark.parametrize("law", ["poisson", "bernoulli"])
def test_small_rounds_of_a_random_size_are_no_shortage(law: str) -> None:
    result = simulate(scenario(law, {"cohort": 4, "pause": "1m"}, [{"devices": 30}], 40))
    assert result.rounds["selected"].to_numpy().min() < 4
    assert result.metrics["rounds.shortage_share"] == 0
    short = scenario("uniform", {"cohort": 4, "shortage": "proceed"}, [{"devices": 6, "separation": 1}], 40)
    assert simulate(short).metrics["rounds.shortage_share"] == 0.5
