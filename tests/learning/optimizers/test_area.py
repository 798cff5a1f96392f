import numpy as np
import pytest
from hypothesis import given, settings

from fedsim.learning import FedAvg, Optimizer
from fedsim.learning.optimizers.mifa import Area
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.server_updates import Composed, Momentum, Sgd

from ..buffered import CASES, Case, Report, replayed, serve
from ..cases import drawn_cohorts, quadratic
from .by_hand import Vector, ends


@settings(max_examples=30, deadline=None)
@given(case=CASES)
def test_over_a_buffered_log_it_is_what_such_a_server_does(case: Case) -> None:
    """Differences are sent one after the other, two of a client in one buffer too; the model is always the mean."""
    problem, sent = quadratic(case.clients), {i: np.zeros(3) for i in range(case.clients)}

    def rule(x: Vector, buffer: list[Report]) -> Vector:
        for report in buffer:
            end = report.downloaded + report.change
            x = x + (end - sent[report.session.client]) / case.clients
            sent[report.session.client] = end
        np.testing.assert_allclose(x, np.mean(list(sent.values()), axis=0), atol=1e-12)
        return x

    np.testing.assert_allclose(
        replayed(case, Area(), problem, 2, 0.1), serve(case, problem, 2, 0.1, rule), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("it", [Area(), Composed(Area(), Sgd(0.5)), Composed(Area(), Momentum(0.3, 0.5))])
def test_it_comes_to_rest_as_if_participation_were_even_and_without_noise(it: Optimizer) -> None:
    """To rounding, where FedAvg is far off; a server update leaves it there."""
    problem, one = Quadratic(8, 1, dimension=3, curvature_spread=0.4), np.ones(8)
    models = ends({"it": it, "avg": FedAvg()}, problem, drawn_cohorts(3000, clients=8, size=3), 4, 0.05)
    rest = problem.rest(one / 8, one, local_steps=4, step_size=0.05)
    assert np.linalg.norm(models["it"].last - rest) < 1e-9
    assert np.linalg.norm(models["avg"].average - rest) > 0.5


def test_who_never_takes_part_holds_the_model_where_it_began() -> None:
    """One curvature, client 7 absent: m sum_i (c_i - x) + (x_0 - x) = 0, m = 1 - (1 - a)^K; so nothing is foretold."""
    problem = Quadratic(8, 1, dimension=3, curvature_spread=0.0)
    m, there = 1 - 0.95**4, problem.centres[:7].sum(axis=0)
    last = ends({"it": Area()}, problem, drawn_cohorts(2000, clients=7, size=3), 4, 0.05)["it"].last
    np.testing.assert_allclose(last, m * there / (7 * m + 1), atol=1e-9)
    assert Area().long_run(np.append(np.ones(7) / 7, 0)) is None
    foreseen = Area().long_run(np.arange(1.0, 9) / 36)
    assert foreseen is not None
    np.testing.assert_allclose(foreseen.weights, 1 / 8)
