import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, LocalWork, replay, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.problems.robust_regression import RobustRegression
from fedsim.learning.server_updates import Composed, Sgd

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


def test_with_one_local_step_and_the_mean_it_is_mifa() -> None:
    """A server step of 1/N makes the sum of the last gradients their mean."""
    log = tables(drawn_cohorts(60, clients=6, size=2))
    both = replay(
        quadratic(), {"it": Composed(Focus(), Sgd(1 / 6)), "mifa": Mifa()}, *log, local_steps=1, step_size=0.1
    )
    of = both.partition_by("optimizer", as_dict=True, include_key=False)
    np.testing.assert_allclose(of["it",]["loss"], of["mifa",]["loss"], rtol=1e-9)


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


def test_what_it_needs_grows_with_those_who_take_part() -> None:
    """With a row for each of them, and never more than it says beforehand."""
    it = Focus()
    state, model = it.init(1000, 30), np.zeros(30)
    for t in range(12):
        cohort = Cohort(t, np.array([t, t + 1]))
        state, local = it.prepare(state, cohort)
        assert local.rule is not None
        local.rule(np.zeros((2, 30)), [lambda models: models + 1.0] * 2, np.ones(2))
        state, model = it.apply(state, model, cohort, np.zeros((2, 30)))
    assert len(state.gradients) == 13
    assert 8 * 13 * 30 <= it.memory(13, 30) == 20 * 13 * 30
