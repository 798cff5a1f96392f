import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning.optimizers.scaffold import Scaffold

from ..cases import quadratic
from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 4), step=st.floats(0.01, 0.2))
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, step: float) -> None:
    """Each client alone, its control in a dictionary, c moved by |S|/N times the mean change of the controls."""
    centres = quadratic().centres
    controls = {i: np.zeros(3) for i in range(6)}
    c = np.zeros(3)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        nonlocal c
        moves, differences = [], []
        for client in changes:
            y = x.copy()
            for _ in range(local_steps):
                y = y - step * (y - centres[client] - controls[client] + c)
            new = controls[client] - c + (x - y) / (local_steps * step)
            moves.append(y - x)
            differences.append(new - controls[client])
            controls[client] = new
        c = c + len(changes) / 6 * np.mean(differences, axis=0)
        return np.asarray(x + np.mean(moves, axis=0))

    assert_ends_there(Scaffold(), cohorts, local_steps, step, rule)
