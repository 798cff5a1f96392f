import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import FedAvg, Optimizer
from fedsim.learning.optimizers.ace import Ace
from fedsim.learning.problems.quadratic import Quadratic

from ..buffered import CASES, Case, Report, replayed, serve
from ..cases import drawn_cohorts, quadratic
from .by_hand import COHORTS, Vector, assert_ends_there, ends

AGES = st.none() | st.integers(0, 20)


class Server:
    """Keeps every report that ever came, and at each looks through all of them."""

    def __init__(self, clients: int, max_age: int | None) -> None:
        self.clients, self.max_age = clients, max_age
        self.reports: list[tuple[int, Vector]] = []

    def step(self, x: Vector, client: int, change: Vector) -> Vector:
        self.reports.append((client, change))
        last = {client: (number, change) for number, (client, change) in enumerate(self.reports)}
        if self.max_age is None:
            return np.asarray(x + np.sum([change for _, change in last.values()], axis=0) / self.clients)
        now = len(self.reports) - 1
        return np.asarray(x + np.mean([each for t, each in last.values() if now - t <= self.max_age], axis=0))


@settings(max_examples=40, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.2), max_age=AGES)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, max_age: int | None
) -> None:
    """A step at each report of a round, in their order."""
    server = Server(6, max_age)

    def rule(x: Vector, changes: dict[int, Vector]) -> Vector:
        for client, change in changes.items():
            x = server.step(x, client, change)
        return x

    assert_ends_there(Ace(max_age), cohorts, local_steps, step, rule)


@settings(max_examples=40, deadline=None)
@given(case=CASES, max_age=AGES)
def test_over_a_buffered_log_it_is_what_such_a_server_does(case: Case, max_age: int | None) -> None:
    """A step at each report of a buffer, two of a client in one buffer too."""
    problem, server = quadratic(case.clients), Server(case.clients, max_age)

    def rule(x: Vector, buffer: list[Report]) -> Vector:
        for report in buffer:
            x = server.step(x, report.session.client, report.change)
        return x

    expected = serve(case, problem, 2, 0.05, rule)
    np.testing.assert_allclose(replayed(case, Ace(max_age), problem, 2, 0.05), expected, rtol=1e-9, atol=1e-12)


def test_it_comes_to_rest_as_if_participation_were_even_and_without_noise() -> None:
    """To rounding; the more reports ACED leaves out, the nearer it comes to FedAvg, which is far off."""
    problem, one = Quadratic(8, 1, dimension=3, curvature_spread=0.4), np.ones(8)
    optimizers: dict[str, Optimizer] = {"ace": Ace(), "aced": Ace(20), "newest": Ace(0), "avg": FedAvg()}
    models = ends(optimizers, problem, drawn_cohorts(3000, clients=8, size=3), 4, 0.02)
    foreseen = Ace().long_run(np.arange(8) / 28)
    assert foreseen is not None
    np.testing.assert_allclose(foreseen.weights, [0, *[1 / 8] * 7])
    rest = problem.rest(one / 8, one, local_steps=4, step_size=0.02)
    assert np.linalg.norm(models["ace"].last - rest) < 1e-9
    off = {name: float(np.linalg.norm(end.average - rest)) for name, end in models.items()}
    assert 0.1 < off["aced"] < off["newest"] / 2
    assert off["newest"] == pytest.approx(off["avg"], rel=0.05)
    assert Ace(0).long_run(one / 8) is None
