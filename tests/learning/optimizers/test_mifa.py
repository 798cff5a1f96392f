import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import Cohort
from fedsim.learning.optimizers.mifa import FedVarp, Mifa

from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=30, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.4))
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, step: float) -> None:
    """Everyone's last change, kept in a dictionary, averaged over all six clients."""
    last = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        last.update(changes)
        return x + sum(last.values(), np.zeros(3)) / 6

    assert_ends_there(Mifa(), cohorts, local_steps, step, rule)


@pytest.mark.parametrize("optimizer", [Mifa(), FedVarp()])
def test_what_it_needs_grows_with_those_who_take_part(optimizer: Mifa | FedVarp) -> None:
    """With a row for each of them, and never more than it says beforehand."""
    state, model = optimizer.init(1000, 30), np.zeros(30)
    for t in range(12):
        state, model = optimizer.apply(state, model, Cohort(t, np.array([t, t + 1])), np.ones((2, 30)))
    assert len(state.rows) == 13
    assert 8 * 13 * 30 <= optimizer.memory(13, 30) == 20 * 13 * 30
