import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import Cohort, replay
from fedsim.learning.optimizers.mifa import FedVarp
from fedsim.learning.optimizers.scaffold import Scaffold

from ..cases import drawn_cohorts, quadratic, tables
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


def test_with_one_local_step_it_is_fedvarp() -> None:
    """Written in gradients instead of changes."""
    log = tables(drawn_cohorts(60, clients=6, size=2))
    both = replay(quadratic(), {"it": Scaffold(), "varp": FedVarp()}, *log, local_steps=1, step_size=0.1)
    of = both.partition_by("optimizer", as_dict=True, include_key=False)
    np.testing.assert_allclose(of["it",]["loss"], of["varp",]["loss"], rtol=1e-9)


def test_what_it_needs_grows_with_those_who_take_part() -> None:
    """With a row for each of them, and never more than it says beforehand."""
    it = Scaffold()
    state, model = it.init(1000, 30), np.zeros(30)
    for t in range(12):
        state, model = it.apply(state, model, Cohort(t, np.array([t, t + 1])), np.ones((2, 30)))
    assert len(state.rows) == 13
    assert 8 * 13 * 30 <= it.memory(13, 30) == 20 * 13 * 30
