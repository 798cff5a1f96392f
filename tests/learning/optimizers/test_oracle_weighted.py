import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim import ScenarioError
from fedsim.learning import Cohort, FedAvg, LearningError, Optimizer, build_optimizer, replay
from fedsim.learning.optimizers.debiased_fedavg import DebiasedFedAvg, OracleWeighted
from fedsim.run.preflight import preflight
from tests.conftest import Load

from ..cases import drawn_cohorts, quadratic, tables
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


def test_with_even_frequencies_it_is_fedavg() -> None:
    """To the last bit: 1 / (6 / 6) is 1."""
    both: dict[str, Optimizer] = {"oracle": OracleWeighted(np.full(6, 1 / 6)), "fedavg": FedAvg()}
    table = replay(quadratic(), both, *tables(drawn_cohorts(20, 6, 2)), local_steps=2, step_size=0.1)
    oracle, fedavg = (table.filter(optimizer=name)["loss"].to_list() for name in both)
    assert oracle == fedavg


def test_counting_comes_to_what_the_oracle_knows() -> None:
    """lambda_i -> pi_i: scales counted over 10,000 rounds against the frequencies of 10,000 others.

    The rarest client takes part about 600 times in each, so that the ratio has a standard deviation of 6 %: 25 % is
    missed less than once in 10,000 times.
    """
    cohorts = drawn_cohorts(20_000, clients=6, size=2)
    counting, knowing = DebiasedFedAvg(), OracleWeighted(None, np.bincount(np.ravel(cohorts[10_000:])) / 20_000, "log")
    state, nu = counting.init(6, 1), knowing.init(6, 1)
    for t, cohort in enumerate(cohorts[:10_000]):
        state, _ = counting.prepare(state, Cohort(t, np.array(cohort)))
    np.testing.assert_allclose(state.total / (6 * state.of_client), nu, rtol=0.25)


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
