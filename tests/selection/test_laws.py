"""The selection laws against their definitions, by both ways of drawing."""

from collections import Counter
from collections.abc import Hashable
from functools import partial
from itertools import combinations, permutations
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedsim.common.keyed import stream
from fedsim.selection.proposals import WeightedProposals, draw
from tests.selection.cases import Among, law_of, request, shown

Outcome = TypeVar("Outcome", bound=Hashable)
WEIGHTS = np.array([0.35, 0.05, 0.2, 0.1, 0.02, 0.28])


@pytest.fixture(params=[4_000, pytest.param(20_000, marks=pytest.mark.long)])
def rounds(request: pytest.FixtureRequest) -> int:
    """Return how often a law is asked: enough to see a coarse error in the quick set, and a fine one."""
    number: int = request.param
    return number


EVERYONE = np.ones(6, dtype=bool)
SOME = np.array([True, True, False, True, True, False])


def midzuno_law(weights: NDArray[np.float64], eligible: list[int], count: int) -> dict[frozenset[int], float]:
    """P(S) proportional to the weight of S: the paper's definition, independent of how it is sampled."""
    mass = {frozenset(s): float(weights[list(s)].sum()) for s in combinations(eligible, count)}
    return {s: value / sum(mass.values()) for s, value in mass.items()}


def successive_law(weights: NDArray[np.float64], eligible: list[int], count: int) -> dict[tuple[int, ...], float]:
    law = {}
    for order in permutations(eligible, count):
        left, chance = float(weights[eligible].sum()), 1.0
        for client in order:
            chance *= weights[client] / left
            left -= weights[client]
        law[order] = chance
    return law


def assert_follows(counts: Counter[Outcome], law: dict[Outcome, float]) -> None:
    """Chi-square against the law; false alarm 1e-3."""
    assert set(counts) <= set(law)
    observed = np.array([counts[outcome] for outcome in law])
    assert stats.chisquare(observed, np.array(list(law.values())) * observed.sum()).pvalue > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("mask", [EVERYONE, SOME], ids=["everyone", "some"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_midzuno(mask: NDArray[np.bool_], count: int, rounds: int) -> None:
    law = law_of("midzuno", WEIGHTS, count, seed=1)
    counts = Counter(frozenset(law.select(request(t, count), shown(mask)).tolist()) for t in range(rounds))
    assert_follows(counts, midzuno_law(WEIGHTS, np.flatnonzero(mask).tolist(), count))


@pytest.mark.parametrize("mask", [EVERYONE, SOME], ids=["everyone", "some"])
@pytest.mark.parametrize("count", [1, 3])
def test_successive(mask: NDArray[np.bool_], count: int, rounds: int) -> None:
    law = law_of("successive", WEIGHTS, count, seed=2)
    counts = Counter(tuple(law.select(request(t, count), shown(mask)).tolist()) for t in range(rounds))
    assert_follows(counts, successive_law(WEIGHTS, np.flatnonzero(mask).tolist(), count))


@pytest.mark.parametrize("mask", [EVERYONE, SOME], ids=["everyone", "some"])
def test_uniform(mask: NDArray[np.bool_], rounds: int) -> None:
    law = law_of("uniform", WEIGHTS, 2, seed=3)
    counts = Counter(tuple(law.select(request(t, 2), shown(mask)).tolist()) for t in range(rounds))
    pairs = list(permutations(np.flatnonzero(mask).tolist(), 2))
    assert_follows(counts, dict.fromkeys(pairs, 1 / len(pairs)))


def test_groups(rounds: int) -> None:
    """One block by its weight, among blocks of which every member is eligible."""
    mask = np.array([True, True, True, False, True, True])
    law = law_of("groups", WEIGHTS, 2, seed=4)
    counts = Counter(tuple(law.select(request(t, 2), shown(mask)).tolist()) for t in range(rounds))
    first, third = WEIGHTS[:2].sum(), WEIGHTS[4:].sum()
    assert_follows(counts, {(0, 1): first / (first + third), (4, 5): third / (first + third)})


def test_bernoulli(rounds: int) -> None:
    """Each by itself, min(1, s p_i) with two expected: the heaviest is certain, and the others share what is left.

    Chi-square on the cohorts; false alarm 1e-3.
    """
    weights = np.array([8.0, 1.0, 2.0, 1.0])
    chances = np.array([1.0, 0.25, 0.5, 0.25])
    law = law_of("bernoulli", weights / weights.sum(), 2, seed=5)
    counts = Counter(
        frozenset(law.select(request(t, 2), shown(np.ones(4, dtype=bool))).tolist()) for t in range(rounds)
    )
    expected = {}
    for size in range(4):
        for others in combinations((1, 2, 3), size):
            member = np.isin(np.arange(4), [0, *others])
            expected[frozenset([0, *others])] = float(np.where(member, chances, 1 - chances).prod())
    assert_follows(counts, expected)


@pytest.mark.parametrize("kind", ["midzuno", "successive", "uniform"])
def test_where_all_are_chosen_their_order_has_the_law(kind: str, rounds: int) -> None:
    """Fewer are eligible than there are places: nobody is left out, and who comes first is drawn."""
    few = [0, 3, 5]
    orders = list(permutations(few))
    total = float(WEIGHTS[few].sum())
    expected = {
        "midzuno": {order: float(WEIGHTS[order[0]]) / total / 2 for order in orders},
        "successive": successive_law(WEIGHTS, few, 3),
        "uniform": dict.fromkeys(orders, 1 / len(orders)),
    }[kind]
    law, among = law_of(kind, WEIGHTS, 3, seed=6), shown(np.isin(np.arange(6), few))
    counts = Counter(tuple(law.select(request(t, 3, everyone=np.array(few)), among).tolist()) for t in range(rounds))
    assert_follows(counts, expected)


def test_cyclic_goes_round() -> None:
    law = law_of("cyclic", WEIGHTS, 2, seed=0)
    assert law.select(request(0, 3, after=3, everyone=np.array([0, 3, 5])), shown(EVERYONE)).tolist() == [5, 0, 3]
    assert law.select(request(0, 2, after=-1), shown(EVERYONE)).tolist() == [0, 1]
    assert law.select(request(1, 3, after=4), shown(EVERYONE)).tolist() == [5, 0, 1]
    assert law.select(request(2, 4, after=1), shown(SOME)).tolist() == [3, 4, 0, 1]
    far = np.zeros(100_000, dtype=bool)
    far[[5, 99_000]] = True
    law = law_of("cyclic", np.ones(100_000), 2, seed=0)
    assert law.select(request(0, 2, after=10), shown(far)).tolist() == [99_000, 5]


@pytest.mark.parametrize("eligible_share", [0.5, 0.002], ids=["by proposals", "densely"])
def test_both_ways_of_drawing_follow_the_law(eligible_share: float) -> None:
    """1,000 units of which half, or two, are eligible: the first takes proposals, the second the dense race.

    Chi-square on the first unit drawn; false alarm 1e-3 each.
    """
    units = 1000
    weights = 1.0 / np.arange(1, units + 1)
    mask = np.zeros(units, dtype=bool)
    mask[-int(units * eligible_share) :] = True
    among = Among(mask)
    source = WeightedProposals(units, partial(stream, 1, 0), weights)
    firsts = [int(draw(source, request(t, 1), 1, among)[0]) for t in range(6000)]
    chances = weights[mask] / weights[mask].sum()
    bins = np.minimum(np.searchsorted(np.flatnonzero(mask), firsts), 49)
    expected = np.append(chances[:49], chances[49:].sum())
    observed = np.bincount(bins, minlength=len(expected))
    kept = expected > 0
    assert stats.chisquare(observed[kept], expected[kept] * len(firsts)).pvalue > 1e-3
    assert (among.asked_all > 5000) == (eligible_share < 0.1)


def test_the_last_eligible_are_found() -> None:
    """When all that are eligible are wanted, all are chosen, however small their weights."""
    weights = np.full(50, 1e-300)
    weights[0] = 1.0
    mask = np.zeros(50, dtype=bool)
    mask[[3, 20, 49]] = True
    for kind in ("midzuno", "uniform", "successive", "cyclic"):
        law = law_of(kind, weights, 3, seed=0)
        assert sorted(law.select(request(7, 3), shown(mask)).tolist()) == [3, 20, 49]
