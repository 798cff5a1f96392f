"""Choosing among settings: ranks and ties, conditions, fronts and confidence regions, each against by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.limits.grammar import parse_condition
from fedsim.trials.decision import detectable, feasible, front, holm, interval, p_values, rank, seeds_needed, told_apart

NAN = float("nan")


def test_intervals_are_student_s() -> None:
    mean, half = interval(np.array([[1.0, 2.0, 4.0], [3.0, NAN, NAN], [NAN, NAN, NAN]]))
    np.testing.assert_allclose(mean, [7 / 3, 3, NAN])
    low, high = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem([1, 2, 4]))
    np.testing.assert_allclose(half, [(high - low) / 2, NAN, NAN])


def test_the_best_is_the_least_of_those_that_are_eligible() -> None:
    values = np.array([[0.5, 0.7], [0.1, 0.3], [0.2, 0.4], [NAN, NAN]])
    ranking = rank(values, np.array([True, False, True, True]))
    assert ranking.best == 2
    assert ranking.order.tolist() == [2, 0]
    np.testing.assert_allclose(ranking.difference[:3], [0.3, -0.1, 0])
    assert rank(values, np.full(4, True), maximize=True).best == 0
    assert rank(values, np.full(4, False)).best is None


def test_p_values_are_student_s_and_holm_s_correction_is_for_all() -> None:
    values = np.array([[0.1, 0.3, 0.2], [1.0, -1.0, 0.5], [NAN, 1.0, NAN], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]])
    p = p_values(values)
    np.testing.assert_allclose(p[:2], stats.ttest_1samp(values[:2], 0, axis=1).pvalue)
    assert np.isnan(p[2])
    assert (p[3], p[4] < 1e-6) == (1.0, True)
    assert holm(np.array([0.03, 0.01, NAN, 0.026])).tolist() == [False, True, False, False]
    assert holm(np.array([0.025, 0.01, 0.02])).tolist() == [True, True, True]
    assert holm(np.array([])).tolist() == []


def test_of_equal_settings_one_in_twenty_sweeps_tells_any_apart() -> None:
    """Of 2,000 sweeps of 12 settings; binomial: 5 % is within 3.7 to 6.3 % of it with 99 %."""
    draws = np.random.default_rng(5).normal(size=(2000, 12, 5))
    assert 0.03 < np.mean([told_apart(each).any() for each in draws]) < 0.063


def test_a_difference_that_is_visible_is_seen_four_times_in_five() -> None:
    draws = np.random.default_rng(6).normal(size=(4000, 6))
    least = detectable(float(stats.t.ppf(0.975, 5) / np.sqrt(6)), 6, 4)
    assert np.mean(p_values(draws + least) < 0.05 / 4) == pytest.approx(0.8, abs=0.05)
    needed = seeds_needed(0.5, float(stats.t.ppf(0.975, 5) / np.sqrt(6)), 6, 4)
    assert needed is not None
    draws = np.random.default_rng(7).normal(size=(4000, needed))
    assert np.mean(p_values(draws + 0.5) < 0.05 / 4) == pytest.approx(0.8, abs=0.05)
    assert seeds_needed(1e-6, 1.0, 6, 4) is None


def test_a_tie_is_a_paired_difference_that_no_test_tells_from_0() -> None:
    world = np.array([0.0, 5.0, 10.0])  # what the worlds have in common, which pairing takes out
    values = np.array([world, world + np.array([0.1, 0.11, 0.09]), world + np.array([0.3, -0.2, 0.1]), world])
    assert rank(values, np.full(4, True)).tied.tolist() == [False, False, True, True]


def test_with_one_seed_only_equals_tie() -> None:
    ranking = rank(np.array([[0.1], [0.1], [0.2]]), np.full(3, True))
    assert ranking.tied.tolist() == [False, True, False]
    assert np.isnan(ranking.half).all()


def test_conditions_are_judged_on_means_and_sure_beyond_their_intervals() -> None:
    wide = np.array([[100.0, 320.0], [229.0, 231.0], [195.0, 215.0], [100.0, 101.0], [195.0, 200.0], [NAN, NAN]])
    found = feasible([parse_condition("rounds.per_day >= 200")], [wide], 6)
    assert found.kept.tolist() == [True, True, True, False, False, False]
    assert found.sure.tolist() == [False, True, False, True, False, True]
    assert feasible([], [], 2).kept.all()
    between = feasible([parse_condition("1 <= rounds.per_day <= 2")], [np.array([[1.5, 1.5], [3.0, 3.0]])], 2)
    assert (between.kept.tolist(), between.sure.tolist()) == ([True, False], [True, True])


def test_the_front_is_what_nothing_beats_in_both() -> None:
    less = np.array([[3.0, 3.0], [1.0, 1.0], [2.0, 2.0], [2.5, 2.5], [NAN, NAN]])
    more = np.array([[9.0, 9.0], [5.0, 5.0], [7.0, 7.0], [7.0, 7.0], [9.0, 9.0]])
    found = front(less, more)
    assert found.rows.tolist() == [0, 2, 1]
    assert found.dominated.tolist() == [False, False, False, True, False]


def test_what_is_beaten_by_chance_alone_is_not_dominated() -> None:
    less = np.array([[1.0, 2.0, 3.0], [1.5, 1.9, 2.9]])
    more = np.full((2, 3), 4.0)
    found = front(less, more)
    assert found.rows.tolist() == [0]
    assert not found.dominated.any()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_a_front_beats_all_that_is_not_on_it(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    found = front(a[:, None], b[:, None])
    on = set(found.rows.tolist())
    assert on
    for row in range(len(a)):
        better = [k for k in range(len(a)) if a[k] <= a[row] and b[k] >= b[row] and (a[k], b[k]) != (a[row], b[row])]
        assert (row in on) == (not better)
        assert found.dominated[row] == bool(better)
