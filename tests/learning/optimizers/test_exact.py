"""Optimizers that rest at the optimum itself, with a constant step, however unevenly clients take part."""

import numpy as np
import pytest

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LocalWork, Optimizer, biases, frequencies, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.amplified import AmplifiedScaffold
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import Mifa
from fedsim.learning.optimizers.scaffold import Scaffold
from fedsim.learning.problems.quadratic import Quadratic

from ..buffered import Case, buffered_tables
from ..cases import drawn_cohorts, tables

EXACT: dict[str, Optimizer] = {
    "scaffold": Scaffold(),
    "amplified_scaffold": AmplifiedScaffold(5, 1.5),
    "focus": Focus(),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rounds", "buffered", "somebody never"])
def test_they_rest_at_the_optimum_of_those_who_take_part(kind: str) -> None:
    """As foreseen, where FedAvg is far from it, and MIFA off by the drift of its four local steps."""
    problem, size = Quadratic(8, 1, dimension=3, curvature_spread=0.4), None
    if kind == "buffered":
        log, size = buffered_tables(Case(clients=8, concurrency=3, buffer=2, versions=1500)), 2
    else:
        log = tables(drawn_cohorts(1500, clients=7 if kind == "somebody never" else 8, size=2))
    optimizers: dict[str, Optimizer] = {**EXACT, "fedavg": FedAvg(), "mifa": Mifa()}
    course = Course(Cohorts.read(*log, 8, size), optimizers, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, 4, 0.02), evaluate_every=10**9)
    pi = frequencies(log[1], 8)
    figures = biases(problem, optimizers, trained.ends, pi, local_steps=4, step_size=0.02)
    optimum = np.average(problem.centres, axis=0, weights=problem.curvatures * (pi > 0)[:, None])
    for name in EXACT:
        np.testing.assert_allclose(trained.ends[name].last, optimum, atol=1e-9)
        assert figures[f"learning.{name}.bias_error"] < 1e-6
    assert np.abs(trained.ends["mifa"].last - optimum).max() > 1e-3
    assert np.abs(trained.ends["fedavg"].average - optimum).max() > 0.05
    assert (figures["learning.scaffold.bias_predicted"] > 0.1) == (kind == "somebody never")
