import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning.optimizers.mifa import FedVarp

from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=30, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.4))
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, step: float) -> None:
    """The server's rule with a dictionary of what it remembers, averaged anew in each round."""
    y = {i: np.zeros(3) for i in range(6)}

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        v = sum(y.values(), np.zeros(3)) / 6 + sum((d - y[i] for i, d in changes.items()), np.zeros(3)) / len(changes)
        y.update(changes)
        return x + v

    assert_ends_there(FedVarp(), cohorts, local_steps, step, rule)
