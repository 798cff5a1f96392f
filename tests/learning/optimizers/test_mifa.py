import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning.optimizers.mifa import Mifa

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
