import numpy as np

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Cohort, Course, LocalWork, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.problems.robust_regression import RobustRegression

from ..cases import drawn_cohorts, tables


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
