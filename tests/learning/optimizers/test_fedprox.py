import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, frequencies, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.fedavg import FedProx
from fedsim.learning.problems.quadratic import Quadratic

from ..cases import drawn_cohorts, quadratic, tables
from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 4), step=st.floats(0.01, 0.2), mu=st.floats(0, 3))
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, step: float, mu: float) -> None:
    """Each client alone: K steps on f_i + mu/2 |y - x|^2."""
    centres = quadratic().centres

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        ends = []
        for client in changes:
            y = x.copy()
            for _ in range(local_steps):
                y = y - step * (y - centres[client] + mu * (y - x))
            ends.append(y)
        return np.asarray(np.mean(ends, axis=0))

    assert_ends_there(FedProx(mu), cohorts, local_steps, step, rule)


@pytest.mark.parametrize("mu", [0.0, 0.5, 4.0])
def test_it_comes_to_rest_where_the_frequencies_lead_it(mu: float) -> None:
    """K steps on a quadratic of curvature h are -m (x - c), m = (1 - (1 - a (h + mu))^K) h / (h + mu)."""
    problem = Quadratic(8, 1, dimension=3, curvature_spread=0.4)
    rounds, participations = tables(drawn_cohorts(6000, clients=8, size=2))
    course = Course(Cohorts.read(rounds, participations, 8), {"it": FedProx(mu)}, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, 4, 0.01), evaluate_every=10**9)
    pi, h = frequencies(participations, 8), problem.curvatures
    pull = pi[:, None] * (1 - (1 - 0.01 * (h + mu)) ** 4) * h / (h + mu)
    rest = (pull * problem.centres).sum(axis=0) / pull.sum(axis=0)
    assert np.abs(trained.ends["it"].average - rest).max() < 0.02
    assert np.abs(problem.optimum - rest).max() > 0.3
