"""Training on the quadratic test problem written out client by client, for optimizers to be compared with."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import Course, LocalWork, Optimizer, Problem, replay, replay_together
from fedsim.learning.cohorts import Cohorts
from fedsim.learning.trajectory import End

from ..cases import Quadratic, quadratic, tables

Vector = NDArray[np.float64]
Rule = Callable[[Vector, dict[int, Vector]], Vector]

COHORTS = st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), min_size=1, max_size=12)


def change(problem: Quadratic, client: int, x: Vector, local_steps: int, step: float) -> Vector:
    """Return Delta_i."""
    y = x.copy()
    for _ in range(local_steps):
        y = y - step * (y - problem.centres[client])
    return y - x


def walk(problem: Quadratic, cohorts: Sequence[Sequence[int]], local_steps: int, step: float, rule: Rule) -> Vector:
    """Return the last model when `rule` turns a model and the changes of a cohort into the next model."""
    x = np.zeros(problem.dimension)
    for cohort in cohorts:
        if cohort:
            x = rule(x, {i: change(problem, i, x, local_steps, step) for i in cohort})
    return x


def assert_ends_there(
    optimizer: Optimizer, cohorts: list[list[int]], local_steps: int, step: float, rule: Rule
) -> None:
    """Check that the replay of an optimizer ends where the rule does, by loss and gradient norm."""
    assert_ends_at(optimizer, cohorts, local_steps, step, walk(quadratic(), cohorts, local_steps, step, rule))


def assert_ends_at(
    optimizer: Optimizer, cohorts: list[list[int]], local_steps: int, step: float, model: Vector
) -> None:
    """Check that the replay of an optimizer ends at a model, by loss and gradient norm."""
    problem = quadratic()
    table = replay(problem, {"it": optimizer}, *tables(cohorts), local_steps=local_steps, step_size=step)
    expected = problem.evaluate(model)
    np.testing.assert_allclose(table["loss"][-1], expected["loss"], rtol=1e-12)
    np.testing.assert_allclose(table["grad_norm"][-1], expected["grad_norm"], rtol=1e-9, atol=1e-12)


def ends(
    optimizers: Mapping[str, Optimizer],
    problem: Problem,
    cohorts: Sequence[Sequence[int]],
    local_steps: int,
    step: float,
) -> Mapping[str, End]:
    """Return the models that optimizers leave behind after a log of these cohorts."""
    course = Course(Cohorts.read(*tables(cohorts), problem.clients), optimizers, stream(0, 0, Purpose.OPTIMIZER))
    [trained] = replay_together([course], LocalWork.checked(problem, local_steps, step), evaluate_every=10**9)
    return trained.ends
