"""A set of those who may be eligible makes no difference to who is chosen, only to how many are asked about."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.bits import words_for
from fedsim.selection import Candidates, Request
from fedsim.selection.proposals import first_of_each
from fedsim.selection.screened import guide_to
from tests.selection.cases import Among, law_of, request, shown


class WithSet(Among):
    """Some of those who are not eligible are known to be so; counts who is asked about."""

    def __init__(self, mask: NDArray[np.bool_], ineligible: NDArray[np.bool_]) -> None:
        super().__init__(mask)
        self.asked = 0
        self._bits = np.zeros(8 * words_for(len(mask)), dtype=np.uint8)
        self._bits[: (len(mask) + 7) // 8] = np.packbits(~ineligible, bitorder="little")

    def eligible(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        self.asked += len(clients)
        return super().eligible(clients)

    def possible(self) -> NDArray[np.uint64]:
        return self._bits.view(np.uint64)


def among(roster: Among) -> Candidates:
    candidates = shown(roster.mask)
    candidates._eligibility = roster
    return candidates


WEIGHTS: dict[str, Callable[[int, np.random.Generator], NDArray[np.float64]]] = {
    "even": lambda n, _: np.ones(n),
    "lognormal": lambda n, rng: np.exp(rng.normal(size=n)),
    "zipf": lambda n, _: np.arange(1, n + 1, dtype=np.float64) ** -1.4,
    "nearly all in one": lambda n, _: np.where(np.arange(n) == n // 2, 1.0, 1e-300),
}


@pytest.mark.parametrize("weights", [*WEIGHTS])
@pytest.mark.parametrize("law", ["midzuno", "uniform", "successive"])
@settings(max_examples=15)
@given(
    n=st.integers(3, 400),
    share=st.sampled_from([0.01, 0.1, 0.6, 1.0]),
    told=st.sampled_from([0.0, 0.7, 1.0]),
    count=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_the_same_are_chosen(law: str, weights: str, n: int, share: float, told: float, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random(n) < share
    mask[0] = True
    ineligible = ~mask & (rng.random(n) < told)
    own = WEIGHTS[weights](n, rng)
    chosen = law_of(law, own / own.sum(), count, seed)
    knowing = law_of(law, own / own.sum(), count, seed)
    for round_ in range(3):
        wanted: Request = request(round_, min(count, int(mask.sum())))
        expected = chosen.select(wanted, among(Among(mask))).tolist()
        assert knowing.select(wanted, among(WithSet(mask, ineligible))).tolist() == expected


@settings(max_examples=30)
@given(n=st.integers(1, 300), seed=st.integers(0, 1000))
def test_a_guide_shows_between_which_places_a_search_ends(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.normal(0.0, 3.0, n))
    cumulative = np.cumsum(weights) / weights.sum()
    guide = guide_to(cumulative)
    draws = rng.random(200)
    place = (draws * (len(guide) - 1)).astype(np.int64)
    found = np.searchsorted(cumulative, draws, side="right")
    assert ((guide[place] <= found) & (found <= guide[place + 1])).all()


@pytest.mark.parametrize("law", ["midzuno", "uniform", "successive"])
def test_those_who_are_barred_are_not_asked_about(law: str) -> None:
    """Of 20,000 three in a hundred are eligible, and two thirds of the others are known not to be."""
    rng = np.random.default_rng(2)
    mask = rng.random(20_000) < 0.03
    ineligible = ~mask & (rng.random(20_000) < 2 / 3)
    weights = np.exp(rng.normal(size=20_000))
    asked = []
    for known in (np.zeros_like(ineligible), ineligible):
        roster = WithSet(mask, known)
        law_of(law, weights / weights.sum(), 100, 3).select(request(0, 100), among(roster))
        asked.append(roster.asked)
        assert not roster.asked_all
    assert asked[1] < 0.5 * asked[0]


@settings(max_examples=40)
@given(units=st.lists(st.integers(0, 40), max_size=60))
def test_each_unit_is_kept_where_it_comes_first(units: list[int]) -> None:
    assert first_of_each(np.array(units, dtype=np.int64)).tolist() == [*dict.fromkeys(units)]
