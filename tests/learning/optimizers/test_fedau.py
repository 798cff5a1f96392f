import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import replay, summarise
from fedsim.learning.optimizers.fedau import FedAu

from ..cases import drawn_cohorts, quadratic, tables
from .by_hand import COHORTS, Vector, assert_ends_there


@settings(max_examples=60, deadline=None)
@given(
    cohorts=st.one_of(COHORTS, st.lists(st.sampled_from([[0], [1, 2], [0, 3], [5]]), min_size=20, max_size=40)),
    local_steps=st.integers(1, 3),
    step=st.floats(0.01, 0.1),
    cutoff=st.one_of(st.none(), st.integers(1, 7)),
)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, cutoff: int | None
) -> None:
    """Algorithm 2 as printed, every client counted in every round; the optimizer looks only at those who report."""
    open_for, closed, omega = dict.fromkeys(range(6), 0), dict.fromkeys(range(6), 0), dict.fromkeys(range(6), 1.0)
    before: list[dict[int, Vector]] = []

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        for i in range(6) if before else ():
            open_for[i] += 1
            if i in before[-1] or open_for[i] == cutoff:
                mean = omega[i] if closed[i] else 0.0
                omega[i] = (closed[i] * mean + open_for[i]) / (closed[i] + 1)
                closed[i], open_for[i] = closed[i] + 1, 0
        before.append(changes)
        return x + sum((omega[i] * d for i, d in changes.items()), np.zeros(3)) / 6

    assert_ends_there(FedAu(cutoff), cohorts, local_steps, step, rule)


def test_it_finds_the_optimum_without_a_cutoff() -> None:
    """Intervals are as long as participation is rare."""
    problem = quadratic(clients=6, dimension=2)
    log = tables(drawn_cohorts(6000, clients=6, size=2))
    figures = summarise(replay(problem, {"it": FedAu(None)}, *log, local_steps=2, step_size=0.005))
    optimum = problem.evaluate(problem.centres.mean(axis=0))["loss"]
    assert figures["learning.it.loss"] == pytest.approx(optimum, abs=0.01)


def test_where_it_rests_is_known_only_without_a_cutoff() -> None:
    """With one, the weights depend on more than frequencies."""
    pi = np.array([0.7, 0.2, 0.1])
    assert FedAu(5).long_run(pi) is None
    limit = FedAu(None).long_run(pi)
    assert limit is not None
    np.testing.assert_allclose(limit.weights, 1 / 3)
