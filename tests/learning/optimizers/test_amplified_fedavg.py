import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, FedAvg, LocalWork, Optimizer, biases, frequencies, replay, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.optimizers.amplified import AmplifiedFedAvg
from fedsim.learning.problems.quadratic import Quadratic

from ..cases import drawn_cohorts, quadratic, tables
from .by_hand import COHORTS, assert_ends_at, change


@settings(max_examples=60, deadline=None)
@given(
    cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.2), p=st.integers(1, 5), eta=st.floats(1, 3)
)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, p: int, eta: float
) -> None:
    """Every P rounds, empty ones counted, the model is put at the start plus eta times what has been added up."""
    problem, cohorts = quadratic(), [*cohorts, [0]]
    x = start = np.zeros(3)
    added = np.zeros(3)
    for t, cohort in enumerate(cohorts):
        if cohort:
            move = np.mean([change(problem, i, x, local_steps, step) for i in cohort], axis=0)
            x, added = x + move, added + move
        if t % p == p - 1:
            x = start = start + eta * added
            added = np.zeros(3)
    assert_ends_at(AmplifiedFedAvg(p, eta), cohorts, local_steps, step, x)


@pytest.mark.parametrize(("interval", "eta"), [(1, 2.0), (10, 1.5), (5, 3.0)])
def test_it_comes_to_rest_where_fedavg_does(interval: int, eta: float) -> None:
    """A bias of more than 1, foreseen to 3 %."""
    problem = Quadratic(8, 1, dimension=3, curvature_spread=0.4)
    rounds, participations = tables(drawn_cohorts(3000, clients=8, size=2))
    course = Course(
        Cohorts.read(rounds, participations, 8), {"it": AmplifiedFedAvg(interval, eta)}, stream(0, 0, Purpose.OPTIMIZER)
    )
    [trained] = replay_together([course], LocalWork.checked(problem, 4, 0.01), evaluate_every=10**9)
    pi = frequencies(participations, 8)
    figures = biases(problem, course.optimizers, trained.ends, pi, local_steps=4, step_size=0.01)
    assert figures["learning.it.bias"] > 1.0
    assert figures["learning.it.bias_error"] < 0.03


def test_over_cycles_it_comes_nearer_sooner() -> None:
    """Six clients one after the other, with a small step size and ten times what a cycle adds up."""
    log = tables([[t % 6] for t in range(300)])
    them: dict[str, Optimizer] = {"it": AmplifiedFedAvg(6, 10.0), "avg": FedAvg()}
    table = replay(quadratic(), them, *log, local_steps=1, step_size=0.002, evaluate_every=6)
    last = dict(table.filter(round=299).select("optimizer", "grad_norm").iter_rows())
    assert last["it"] < 0.1 * last["avg"]
