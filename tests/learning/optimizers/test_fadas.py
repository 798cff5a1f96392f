import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning.optimizers.fadas import Fadas
from fedsim.learning.problems.quadratic import Quadratic

from ..buffered import CASES, Case, Report, replayed, serve
from ..cases import drawn_cohorts, quadratic
from .by_hand import COHORTS, Vector, assert_ends_there, ends


class Server:
    """The moments of each coordinate as plain numbers."""

    def __init__(self, rule: Fadas) -> None:
        self.rule, self.m, self.v, self.w = rule, [0.0] * 3, [0.0] * 3, [0.0] * 3

    def step(self, x: Vector, changes: list[Vector], staleness: list[int]) -> Vector:
        it, eta, moved = self.rule, self.rule.step_size, []
        if it.delay_threshold is not None and max(staleness) > it.delay_threshold:
            eta = min(eta, 1 / max(staleness))
        for j in range(3):
            delta = sum(float(change[j]) for change in changes) / len(changes)
            self.m[j] = it.beta_1 * self.m[j] + (1 - it.beta_1) * delta
            self.v[j] = it.beta_2 * self.v[j] + (1 - it.beta_2) * delta * delta
            self.w[j] = max(self.w[j], self.v[j])
            moved.append(eta * self.m[j] / (self.w[j] ** 0.5 + it.epsilon))
        return np.asarray(x + moved)


RULES = st.builds(
    Fadas,
    step_size=st.floats(0.01, 1),
    delay_threshold=st.none() | st.integers(0, 4),
    beta_1=st.floats(0, 0.95),
    beta_2=st.floats(0, 0.99),
    epsilon=st.floats(1e-8, 1),
)


@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 3), rule=RULES)
def test_it_is_the_papers_algorithm(cohorts: list[list[int]], local_steps: int, rule: Fadas) -> None:
    """Coordinate by coordinate, in rounds, where nothing is stale."""
    server = Server(rule)
    assert_ends_there(
        rule, cohorts, local_steps, 0.1, lambda x, changes: server.step(x, list(changes.values()), [0] * len(changes))
    )


@settings(max_examples=40, deadline=None)
@given(case=CASES, rule=RULES)
def test_over_a_buffered_log_it_is_what_such_a_server_does(case: Case, rule: Fadas) -> None:
    """Buffers with a report that is too stale make a shorter step."""
    problem, server = quadratic(case.clients), Server(rule)

    def step(x: Vector, buffer: list[Report]) -> Vector:
        return server.step(x, [report.change for report in buffer], [report.staleness for report in buffer])

    expected = serve(case, problem, 2, 0.05, step)
    np.testing.assert_allclose(replayed(case, rule, problem, 2, 0.05), expected, rtol=1e-7, atol=1e-9)


def test_it_comes_to_rest_where_fedavg_does() -> None:
    """The largest second moment settles, and what is left is linear in the changes."""
    problem, one = Quadratic(8, 1, dimension=3, curvature_spread=0.4), np.ones(8)
    cohorts = drawn_cohorts(6000, clients=8, size=2)
    pi = np.bincount(np.ravel(cohorts), minlength=8) / 12_000
    average = ends({"it": Fadas()}, problem, cohorts, 4, 0.01)["it"].average
    foreseen = Fadas(delay_threshold=None).long_run(pi)
    assert foreseen is not None
    rest = problem.rest(foreseen.weights, foreseen.scales, local_steps=4, step_size=0.01)
    assert np.linalg.norm(average - rest) < 0.02
    assert np.linalg.norm(problem.rest(one / 8, one, local_steps=4, step_size=0.01) - rest) > 0.8
    assert Fadas().long_run(pi) is None
