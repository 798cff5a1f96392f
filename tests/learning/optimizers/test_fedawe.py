import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.learning import FedAvg
from fedsim.learning.optimizers.fedawe import FedAwe
from fedsim.learning.problems.quadratic import Quadratic
from fedsim.learning.server_updates import Composed, Sgd

from ..buffered import CASES, Case, Report, Session, replayed, serve
from ..cases import drawn_cohorts, quadratic
from .by_hand import COHORTS, Vector, change, ends


@settings(max_examples=40, deadline=None)
@given(
    cohorts=COHORTS,
    local_steps=st.integers(1, 3),
    step=st.floats(0.01, 0.2),
    eta=st.sampled_from([0.5, 1.0]),
    server=st.none() | st.just(0.7),
)
def test_it_is_the_papers_algorithm(
    cohorts: list[list[int]], local_steps: int, step: float, eta: float, server: float | None
) -> None:
    """Each client a model of its own and a count of rounds missed, empty rounds among them.

    Behind a server update clients are given the server's model, not what FedAWE alone would have made.
    """
    problem, local, missed, x = quadratic(), np.zeros((6, 3)), np.ones(6), np.zeros(3)
    for cohort in cohorts:
        models = [local[i] + eta * missed[i] * change(problem, i, local[i], local_steps, step) for i in cohort]
        missed += 1
        missed[cohort] = 1
        if cohort:
            x = x + (1.0 if server is None else server) * (np.mean(models, axis=0) - x)
            local[cohort] = x
    rule = FedAwe(eta)
    trained = ends({"it": rule if server is None else Composed(rule, Sgd(server))}, problem, cohorts, local_steps, step)
    np.testing.assert_allclose(trained["it"].last, x, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_over_a_buffered_log_it_is_what_such_a_server_does(case: Case) -> None:
    """Whose last report's buffer has made a version by the download starts from that version, others from theirs."""
    problem, reported, echo = quadratic(case.clients), dict[int, int](), dict[Session, int]()

    def start(session: Session, version: int, models: list[Vector]) -> Vector:
        before = reported.get(session.client, -1)
        reported[session.client] = version
        echo[session] = version - before
        return models[before + 1] if before < session.version else models[session.version]

    def rule(_x: Vector, buffer: list[Report]) -> Vector:
        return np.asarray(np.mean([each.start + echo[each.session] * each.change for each in buffer], axis=0))

    expected = serve(case, problem, 2, 0.02, rule, start)
    np.testing.assert_allclose(replayed(case, FedAwe(), problem, 2, 0.02), expected, rtol=1e-8, atol=1e-11)


def test_it_comes_to_rest_nearer_the_optimum_the_smaller_the_steps() -> None:
    """FedAvg's bias stays what it is."""
    problem, cohorts, one = Quadratic(8, 1, dimension=3, curvature_spread=0.4), drawn_cohorts(2000, 8, 3), np.ones(8)
    off: dict[str, list[float]] = {"it": [], "avg": []}
    for step in (0.02, 0.005):
        rest = problem.rest(one / 8, one, local_steps=4, step_size=step)
        for name, end in ends({"it": FedAwe(), "avg": FedAvg()}, problem, cohorts, 4, step).items():
            off[name].append(float(np.linalg.norm(end.average - rest)))
    assert off["it"][1] < off["it"][0] / 2 < 0.03
    assert min(off["avg"]) > 0.7


@pytest.mark.parametrize("groups", [[[0], [1], [2], [3], [4], [5]], [[0, 1, 2], [3, 4, 5]]])
def test_groups_that_never_meet_go_to_optima_of_their_own(groups: list[list[int]]) -> None:
    """Nobody in a cohort has seen the others' model, however even participation is."""
    problem = quadratic()
    last = ends({"it": FedAwe()}, problem, groups * 200, 2, 0.02)["it"].last
    np.testing.assert_allclose(last, problem.centres[groups[-1]].mean(axis=0), atol=1e-9)
