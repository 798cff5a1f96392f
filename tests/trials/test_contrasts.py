"""Comparing settings: intervals and tests against scipy's, error rates over worlds in which nothing differs."""

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.common.arrays import Floats
from fedsim.trials.contrasts import (
    Standing,
    contrasts_of,
    detectable,
    differences,
    interval,
    margins,
    paired,
    scale_of,
    seeds_needed,
    spent,
)
from fedsim.trials.contrasts import tested_together as judged_together
from fedsim.trials.trials import Trials

NAN = float("nan")
figures = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=12)


def worlds(settings: int, seeds: int, number: int, spread: float = 1.0) -> np.ndarray:
    """Draw equal settings in so many worlds, which settings share by seed; the last setting has a spread of its own."""
    rng = np.random.default_rng([settings, seeds])
    own = rng.normal(size=(number, settings, seeds)) * np.where(np.arange(settings) == settings - 1, spread, 1)[:, None]
    return own + 3 * rng.normal(size=(number, 1, seeds))


def test_no_interval_of_what_is_never_negative_reaches_below_0() -> None:
    """Of three times from 1 h to 6 h it was 3 h ± 6.6 h."""
    values = np.array([[1.0, 2.0, 6.0], [10.0, 11.0, 12.0], [-1.0, 2.0, 6.0], [0.0, 0.0, 0.0]])
    half = interval(values).half
    np.testing.assert_allclose(margins(values), [[2.0, *half[1:]], [3.0, *half[1:]]])


def test_intervals_are_student_s() -> None:
    mean, half = interval(np.array([[1.0, 2.0, 4.0], [3.0, NAN, NAN], [NAN, NAN, NAN]]))
    np.testing.assert_allclose(mean, [7 / 3, 3, NAN])
    low, high = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem([1, 2, 4]))
    np.testing.assert_allclose(half, [(high - low) / 2, NAN, NAN])


@given(figures=figures)
def test_pairs_are_judged_as_by_scipy(figures: list[tuple[float, float]]) -> None:
    a, b = np.array(figures).T
    found = paired(b, a)
    assert found.mean == pytest.approx(np.mean(b - a), abs=1e-9)
    if np.std(b - a) > 1e-6:
        tested = stats.ttest_rel(b, a)
        assert found.p == pytest.approx(tested.pvalue, rel=1e-6, abs=1e-12)
        low, high = tested.confidence_interval(0.95)
        assert found.half == pytest.approx((high - low) / 2, rel=1e-7, abs=1e-7)


def test_what_is_tested_follows_from_the_values() -> None:
    assert scale_of(np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 4.5]]))[0] == ""
    assert scale_of(np.array([[1.0, 2.0, 50.0], [3.0, 4.0, 4.5]]))[0] == "logarithms"
    assert scale_of(np.array([[-1.0, 2.0, 50.0], [3.0, 4.0, 4.5]]))[0] == ""
    assert scale_of(np.array([[-1.0, 2.0, 500.0], [3.0, 4.0, NAN]])) == ("signed logarithms", 2.0)
    assert scale_of(np.array([[-1.0, 0.5, 0.8], [300.0, 400.0, 450.0]])) == ("signed logarithms", 0.8)
    assert scale_of(np.array([[0.0, 0.0, 0.0, 7.0], [NAN] * 4]))[0] == ""
    assert scale_of(np.full((2, 3), NAN)) == scale_of(np.empty((0, 0))) == ("", 1.0)


BLOWN = [29.0, 857.0, 31.0, 44.0, 35.0, 120.0, 52.0, 61.0]
OTHERS = np.array([[0.17, 0.76, 0.33, 0.24, 0.41, 0.52, 0.29, 0.6], [0.2, 0.7, 0.3, 0.3, 0.4, 0.5, 0.3, 0.5]])


@pytest.mark.parametrize("settings", [2, 5, 12])
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.7])  # excess losses may be below 0
def test_what_is_worse_with_every_seed_by_far_is_no_tie(settings: int, shift: float) -> None:
    """By a t test of values p = 0.1 before Holm, since one of eight is far out."""
    noise = np.random.default_rng(1).normal(0, 0.02, (settings - 1, 8))
    values = np.vstack([OTHERS[np.arange(settings - 1) % 2] + noise - shift, BLOWN])
    found = contrasts_of(values)
    assert found.states[-1] is Standing.DIFFERS
    assert ("signed logarithms" if shift else "t test of logarithms") in found.test
    assert not found.may_be_best[-1]


def test_a_difference_by_outliers_alone_is_neither_significant_nor_a_tie() -> None:
    """The first has the lower mean, the second is lower with 11 of 12 seeds: "significantly worse" would be wrong."""
    steady, wild = np.linspace(9.9, 10.1, 12), np.r_[np.linspace(0.5, 1.5, 11), 150.0]
    found = contrasts_of(np.array([steady, wild]))
    assert stats.ttest_rel(np.log(wild), np.log(steady)).pvalue < 0.05
    assert (found.best, found.states[1], bool(found.may_be_best[1])) == (0, Standing.TIED, True)
    low = np.r_[np.linspace(0.5, 1.5, 6), 300.0, 500.0]
    assert contrasts_of(np.array([np.linspace(0.9, 1.1, 8), low])).states[1] is Standing.FEW


def test_the_best_is_the_least_of_those_that_are_eligible() -> None:
    values = np.array([[0.5, 0.7], [0.1, 0.3], [0.2, 0.4], [NAN, NAN]])
    found = contrasts_of(values, eligible=np.array([True, False, True, True]))
    assert found.order.tolist() == [2, 0]
    np.testing.assert_allclose(found.difference[:3], [0.3, -0.1, 0])
    assert found.states[1] is found.states[3] is Standing.NO_VALUE
    assert contrasts_of(values, less_is_better=False).best == 0
    assert contrasts_of(values, eligible=np.full(4, False)).best is None


@pytest.mark.parametrize("settings", [3, 6])
def test_all_pairs_are_judged_by_holm_s_steps(settings: int) -> None:
    """Written out anew, with scipy's tests."""
    for seed in range(30):
        values = np.random.default_rng(seed).normal(size=(settings, 6)) + np.linspace(0, 2, settings)[:, None]
        found = contrasts_of(values)
        p = {pair: stats.ttest_rel(*values[[*pair]]).pvalue for pair in combinations(range(settings), 2)}
        rejected = set[int]()
        for step, pair in enumerate(sorted(p, key=p.__getitem__)):
            if p[pair] > 0.05 / (len(p) - step):
                break
            rejected |= {*pair} - {found.best} if found.best in pair else set()
        assert set(np.flatnonzero(found.differs).tolist()) == rejected
        assert found.tests == len(p)


def test_may_be_the_best_is_not_to_be_worse_than_any_other() -> None:
    for seed in range(30):
        values = np.random.default_rng(seed).normal(size=(5, 6)) + np.linspace(0, 2, 5)[:, None]
        worse = [
            any(stats.ttest_rel(a, b, alternative="greater").pvalue <= 0.05 / 4 for b in values if b is not a)
            for a in values
        ]
        assert contrasts_of(values).may_be_best.tolist() == [not each for each in worse]


def test_constant_differences_are_exact_and_nobody_corrects_for_them() -> None:
    world = np.random.default_rng(0).normal(size=8)
    values = np.array([world, world, world + 1, world + np.random.default_rng(1).normal(0, 0.1, 8)])
    found = contrasts_of(values, reference=0)
    assert found.states[1:3] == (Standing.SAME, Standing.DIFFERS)
    assert (found.tests, found.half[2], found.p[1]) == (1, 0.0, 1.0)
    repeats = np.array([[1.0, 1, 2, 2], [2.0, 2, 3, 3]])  # the same difference of few values may be chance
    assert contrasts_of(repeats).states[1] is Standing.TIED
    assert contrasts_of(repeats).p[1] == pytest.approx(0.125)


def test_seeds_that_both_have_are_compared() -> None:
    found = contrasts_of(np.array([[1.0, 1.1, 1.2, NAN], [1.5, 1.7, NAN, 9.0], [3.0, NAN, NAN, NAN]]))
    assert found.seeds.tolist() == [3, 2, 1]
    np.testing.assert_allclose(found.difference, [0, 0.55, 2])
    assert found.states == (Standing.REFERENCE, Standing.FEW, Standing.UNTESTED)


def test_two_seeds_are_too_few_and_many_are_a_tie() -> None:
    few = contrasts_of(np.array([[1.0, 2.0], [20.0, 33.0]]))
    assert (few.states[1], bool(few.may_be_best[1])) == (Standing.FEW, True)
    ramp = np.arange(8.0)
    assert contrasts_of(np.array([ramp, ramp[::-1] + 0.5])).states == (Standing.REFERENCE, Standing.TIED)
    assert contrasts_of(np.array([[1.0], [1.0], [2.0]])).states == (
        Standing.REFERENCE,
        Standing.UNTESTED,
        Standing.UNTESTED,
    )


def test_single_runs_are_judged_by_the_errors_that_they_state() -> None:
    values = np.array([[0.8], [0.75], [0.4]])
    found = contrasts_of(values, reference=0, errors=np.array([0.03, 0.04, 0.04]))
    assert found.states[1:] == (Standing.TIED, Standing.DIFFERS)
    assert found.half[1] == pytest.approx(stats.t.ppf(0.975, 12) * 0.05)


def test_several_facts_are_judged_together() -> None:
    """Each has p = 0.04 alone, and not one of five is told together."""
    apart = 0.2 * np.array([-1.0, 0.0, 1.0])
    half = float(paired(apart, np.zeros(3)).half)
    one = contrasts_of(np.array([np.zeros(3), apart - 1.04 * half]), reference=0)
    assert one.differs[1]
    assert not any(each.differs.any() for each in judged_together([one] * 5))
    assert judged_together([one])[0].differs[1]
    assert judged_together([]) == ()


FEW = [(*case, 1.0, 400, 33) for case in ((2, 3), (2, 8), (5, 3), (5, 8), (8, 8))]
MANY = [(*case, 2000, 130) for case in product((2, 5, 8, 20), (3, 8), (1.0, 10.0))]


@pytest.mark.parametrize(
    ("settings", "seeds", "spread", "number", "most"),
    [*FEW, *(pytest.param(*case, marks=pytest.mark.long) for case in MANY)],
)
def test_of_equal_settings_few_are_told_apart_and_the_best_is_kept(
    settings: int, seeds: int, spread: float, number: int, most: int
) -> None:
    """Of 400 worlds; of 5 % more than 33 come about once in 300 such tests, and of 2,000 more than 130 once in 500."""
    found = [contrasts_of(each) for each in worlds(settings, seeds, number, spread)]
    assert sum(each.differs.any() for each in found) <= most
    assert sum(not each.may_be_best[0] for each in found) <= most


@pytest.mark.long
@pytest.mark.parametrize("seeds", [3, 8, 20])
@pytest.mark.parametrize("law", ["exponential", "lognormal", "cauchy", "counts"])
def test_heavy_tails_keep_the_error_rates(law: str, seeds: int) -> None:
    rng, size = np.random.default_rng(seeds), (1000, 5, seeds)
    draws: dict[str, Callable[[], Floats]] = {
        "exponential": lambda: rng.exponential(size=size),
        "lognormal": lambda: np.exp(2 * rng.normal(size=size)),
        "cauchy": lambda: rng.standard_cauchy(size),
        "counts": lambda: rng.integers(0, 4, size).astype(float),
    }
    found = [contrasts_of(each) for each in draws[law]()]
    assert sum(each.differs.any() for each in found) <= 71  # of 5 %: once in 500
    assert sum(not each.may_be_best[0] for each in found) <= 75


def test_many_settings_are_compared_with_the_best_alone() -> None:
    values = np.random.default_rng(0).normal(size=(400, 5))
    values[7] -= 40
    found = contrasts_of(values)
    assert (found.best, found.tests) == (7, 400 * 399 // 2)
    assert found.may_be_best[7]
    assert not found.may_be_best.all()


def test_looks_spend_what_there_is() -> None:
    levels = spent([3, 5, 7, 8])
    assert levels.sum() == pytest.approx(0.025)
    assert (np.diff(levels) < 0).all()
    assert spent([8]).tolist() == [0.025]


def test_a_difference_that_is_visible_is_seen_four_times_in_five() -> None:
    draws = np.random.default_rng(6).normal(size=(4000, 6))
    least = detectable(float(stats.t.ppf(0.975, 5) / np.sqrt(6)), 6, 4)
    assert np.mean(paired(draws + least, np.zeros(6)).p < 0.05 / 4) == pytest.approx(0.8, abs=0.05)
    needed = seeds_needed(0.5, float(stats.t.ppf(0.975, 5) / np.sqrt(6)), 6, 4)
    assert needed is not None
    draws = np.random.default_rng(7).normal(size=(4000, needed))
    assert np.mean(paired(draws + 0.5, np.zeros(needed)).p < 0.05 / 4) == pytest.approx(0.8, abs=0.05)
    assert seeds_needed(1e-6, 1.0, 6, 4) is None


def trials(values: dict[tuple[int, int], float | None], metric: str = "m") -> Trials:
    return Trials.in_memory("t", {}, {run: {metric: value} for run, value in values.items()})


def test_what_worlds_have_in_common_cancels() -> None:
    """Worlds that differ by thousands do not hide a difference of one."""
    noise = np.random.default_rng(0).normal(0, 1000, 10)
    (row,) = differences(trials({(p, s): float(noise[s] + p) for s in range(10) for p in (0, 1)}), [(0, 1)]).to_dicts()
    assert 0.999 < row["low"] <= row["high"] < 1.001
    assert 2 * interval(noise).half > 100


def test_the_interval_covers_as_often_as_it_says() -> None:
    """2,000 settings of 5 seeds: coverage within 4.5 standard errors of 90 % (false alarms: 7e-6)."""
    draws = np.random.default_rng(1).normal(3.0, 2.0, (2000, 5))
    values: dict[tuple[int, int], float | None] = {(0, seed): 0.0 for seed in range(5)}
    values |= {(1 + row, seed): float(draws[row, seed]) for row in range(2000) for seed in range(5)}
    found = trials(values)
    table = differences(found, found.beside(), confidence=0.9)
    covered = ((table["low"] <= 3.0) & (table["high"] >= 3.0)).mean()
    assert covered == pytest.approx(0.9, abs=4.5 * np.sqrt(0.09 / 2000))


def test_only_pairs_in_which_both_have_a_value_count() -> None:
    found = trials({(0, 0): 1.0, (0, 1): None, (0, 2): 4.0, (1, 0): 2.0, (1, 1): 9.0})
    (row,) = differences(found, found.beside()).to_dicts()
    assert (row["seeds"], row["baseline_mean"], row["mean"], row["difference"]) == (1, 1.0, 2.0, 1.0)
    assert row["standard_error"] is row["low"] is row["high"] is None


def test_the_baseline_and_the_metrics_can_be_chosen() -> None:
    both = Trials.in_memory("t", {}, {(p, s): {"m": 1.0, "n": float(p * s)} for p in range(3) for s in range(2)})
    chosen = differences(both, both.beside(2), ["n"])
    assert (chosen["point"].to_list(), set(chosen["metric"])) == ([0, 1], {"n"})
    assert chosen["difference"].to_list() == [-1.0, -0.5]
    with pytest.raises(ValueError, match="there is no point 3; the points are 0, 1, 2"):
        both.beside(3)
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        differences(both, both.beside(), confidence=95)


def test_trials_of_nothing_have_no_differences() -> None:
    nothing = trials({})
    assert len(differences(nothing, nothing.beside())) == 0
    assert contrasts_of(np.empty((0, 0))).best is None


@pytest.mark.parametrize("reference", [None, 0])
def test_an_interval_excludes_zero_exactly_where_the_difference_is_significant(reference: int | None) -> None:
    """Settings further and further off: some intervals, one at a time, exclude 0 where nothing is significant."""
    generator, alone = np.random.default_rng(4), 0
    for _ in range(20):
        values = 50 + 0.4 * np.arange(6)[:, None] + generator.standard_normal((6, 8))
        given = contrasts_of(values, reference=reference)
        others = [row for row in range(6) if row != given.reference]
        away = np.abs(given.difference)
        assert [bool(away[row] > given.tested_half[row]) for row in others] == given.differs[others].tolist()
        alone += int((away > given.half)[others].sum() - given.differs[others].sum())
    assert alone > 10


def test_there_is_no_interval_where_logarithms_are_tested() -> None:
    values = np.exp(np.random.default_rng(4).standard_normal((4, 12)) * 3)
    given = contrasts_of(values)
    assert given.scale == "logarithms"
    assert np.isnan(given.tested_half).all()
