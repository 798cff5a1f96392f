import numpy as np
import pytest

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, frequencies, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.fedavg import FedProx
from fedsim.learning.problems.quadratic import Quadratic

from ..cases import drawn_cohorts, tables


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
