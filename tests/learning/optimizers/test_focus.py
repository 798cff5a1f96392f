import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, LocalWork, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.problems.robust_regression import RobustRegression

from ..cases import drawn_cohorts, quadratic, tables
from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 4), step=st.floats(0.005, 0.05))
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, step: float) -> None:
    """Each client alone, as in the authors' code: what it pushes is added up at the server."""
    centres = quadratic().centres
    previous = {i: np.zeros(3) for i in range(6)}
    total = np.zeros(3)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        nonlocal total
        for client in changes:
            z, y = x, np.zeros(3)
            for k in range(local_steps):
                if k > 0:
                    z = z - step * y
                gradient = z - centres[client]
                y = y + gradient - previous[client]
                previous[client] = gradient
            total = total + y
        return x - step * total

    assert_ends_there(Focus(), cohorts, local_steps, step, rule)


def test_the_server_has_the_sum_of_the_last_gradients() -> None:
    """The invariant, with minibatches, in every round: what was pushed adds up to one gradient of each client."""

    class Checked(Focus):
        def apply(self, state, model, cohort, deltas):  # type: ignore[no-untyped-def]
            state, after = super().apply(state, model, cohort, deltas)
            rows = state.gradients.of(np.arange(7))
            np.testing.assert_allclose(state.total, rows.sum(axis=0), rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(state.gradients.of(cohort.clients), state.latest)
            checked.append(cohort)
            return state, after

    checked: list[Cohort] = []
    course = Course(
        Cohorts.read(*tables(drawn_cohorts(20, 7, 3)), 7), {"it": Checked()}, stream(1, 0, Purpose.OPTIMIZER)
    )
    problem = RobustRegression(clients=7, seed=1, dimension=4, samples=6)
    replay_together([course], LocalWork.checked(problem, 3, 0.02, 3))
    assert len(checked) == 20
