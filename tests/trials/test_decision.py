"""Conditions and fronts of settings, each against by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.measure.grammar import parse_condition
from fedsim.trials.decision import feasible, front, judge_settings
from fedsim.trials.trials import Trials

NAN = float("nan")


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
    assert found.tolist() == [0, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_a_front_beats_all_that_is_not_on_it(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    found = front(a[:, None], b[:, None])
    on = set(found.tolist())
    assert on
    for row in range(len(a)):
        better = [k for k in range(len(a)) if a[k] <= a[row] and b[k] >= b[row] and (a[k], b[k]) != (a[row], b[row])]
        assert (row in on) == (not better)


def test_settings_that_are_the_same_leave_nothing_open() -> None:
    """A comparison of a run with itself said that one side was more even and the same side faster."""
    figures = {"participation.l1_uniform": 0.4, "updates.per_day": 200.0, "reports.wanted": 20.0}
    meta = {"scenario": {"stop": {"rounds": 9}, "population": [{"devices": 9}], "server": {"cohort": 3}}}
    for change, is_so in ((0.0, False), (1e-12, False), (0.1, True)):
        other = {**figures, "participation.l1_uniform": 0.4 - change, "updates.per_day": 200.0 - change}
        trials = Trials.in_memory("pair", meta, {(0, 1): figures, (1, 1): other})
        assert judge_settings(trials).open is is_so
