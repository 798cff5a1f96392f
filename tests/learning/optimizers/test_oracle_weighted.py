import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim import ScenarioError
from fedsim.learning import LearningError, build_optimizer, replay
from fedsim.learning.optimizers.debiased_fedavg import OracleWeighted
from fedsim.run.preflight import preflight
from tests.conftest import Load

from ..cases import quadratic, tables
from .by_hand import COHORTS, change

PI = np.array([0.3, 0.25, 0.2, 0.15, 0.06, 0.04])


@settings(max_examples=30, deadline=None)
@given(cohorts=COHORTS, local_steps=st.integers(1, 3), step=st.floats(0.01, 0.2))
def test_its_steps_undo_the_frequencies(cohorts: list[list[int]], local_steps: int, step: float) -> None:
    """Client by client with step alpha / (N pi_i)."""
    problem, x = quadratic(), np.zeros(3)
    for cohort in filter(None, cohorts):
        x = x + np.mean([change(problem, i, x, local_steps, step / (6 * PI[i])) for i in cohort], axis=0)
    table = replay(problem, {"it": OracleWeighted(PI)}, *tables(cohorts), local_steps=local_steps, step_size=step)
    np.testing.assert_allclose(table["loss"][-1], problem.evaluate(x)["loss"], rtol=1e-10)


def test_it_is_given_what_it_asks_for() -> None:
    """Theory by default; without a theory the error says what to do."""
    frequency = PI[::-1].copy()
    np.testing.assert_allclose(
        build_optimizer("oracle_weighted", {}, pi=PI, frequency=frequency).init(6, 1), 1 / (6 * PI)
    )
    by_log = build_optimizer("oracle_weighted", {"source": "log"}, pi=None, frequency=frequency)
    np.testing.assert_allclose(by_log.init(6, 1), 1 / (6 * frequency))
    with pytest.raises(LearningError, match=r"no theory for this scenario's participation.*write source: log"):
        build_optimizer("oracle_weighted", {}, frequency=frequency)
    with pytest.raises(LearningError, match="expected 5 frequencies, got 6"):
        by_log.init(5, 1)


def test_who_never_takes_part_has_no_weight_to_overflow() -> None:
    """nu_i = 1 where pi_i = 0: nobody sees it."""
    np.testing.assert_array_equal(OracleWeighted(np.array([1.0, 0.0])).init(2, 1), [0.5, 1.0])


def test_where_it_rests_depends_on_what_was_predicted() -> None:
    """Steps undo what it was told; by what was, and not by what is."""
    pi, forecast = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    limit = OracleWeighted(pi=pi, source="predicted", predicted=lambda: forecast).long_run(pi)
    np.testing.assert_allclose(limit.weights, pi)
    np.testing.assert_allclose(limit.scales, 1 / (3 * forecast))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("oracle_weighted", r"optimizers\[0\]\.source: theory does not cover .* write source: log"),
        (
            "{kind: debiased_fedavg, prior: 2, prior_from: theory}",
            r"optimizers\[0\]\.prior_from: theory does not cover .* write prior_from: uniform",
        ),
    ],
)
def test_who_wants_theory_where_there_is_none_is_told_before_the_run(small: Load, choice: str, words: str) -> None:
    learning = "learning={problem: quadratic, optimizers: [%s], step_size: 0.1}"
    renewal = "population.0.availability={kind: renewal, on: 30m, off: 10m}"
    preflight(small(learning % choice))
    with pytest.raises(ScenarioError, match=words):
        preflight(small(learning % choice, renewal))
    preflight(small(learning % "{kind: oracle_weighted, source: log}, {kind: debiased_fedavg, prior: 2}", renewal))
