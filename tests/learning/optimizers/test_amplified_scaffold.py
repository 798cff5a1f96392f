import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning.optimizers.amplified import AmplifiedScaffold

from ..cases import quadratic
from .by_hand import COHORTS, Vector, assert_ends_at


@settings(max_examples=60, deadline=None)
@given(
    cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.2), p=st.integers(1, 5), eta=st.floats(1, 3)
)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, p: int, eta: float
) -> None:
    """Gradient by gradient, with every gradient of an interval in a list."""
    centres, cohorts = quadratic().centres, [*cohorts, [0]]
    x = start = np.zeros(3)
    controls, gradients = np.zeros((6, 3)), dict[int, list[Vector]]()
    for t, cohort in enumerate(cohorts):
        ends = []
        for client in cohort:
            y = x
            for _ in range(local_steps):
                gradient = y - centres[client]
                gradients.setdefault(client, []).append(gradient)
                y = y - step * (gradient - controls[client] + controls.mean(axis=0))
            ends.append(y)
        x = np.mean(ends, axis=0) if ends else x
        if t % p == p - 1:
            x = start = start + eta * (x - start)
            for client, seen in gradients.items():
                controls[client] = np.mean(seen, axis=0)
            gradients.clear()
    assert_ends_at(AmplifiedScaffold(p, eta), cohorts, local_steps, step, x)
