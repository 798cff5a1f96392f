"""Minibatches of the rows of a log are those of each row alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.common.keyed import Purpose, stream
from fedsim.learning import LocalWork
from fedsim.learning.cohorts import Cohorts, Reports
from fedsim.learning.local_training import with_minibatches
from fedsim.learning.problems.robust_regression import RobustRegression

from .buffered import Case, buffered_tables

WORK = LocalWork.checked(RobustRegression(clients=9, seed=0, dimension=2, samples=50), 2, 0.1, batch_size=3)
DRAWS = stream(4, 1, Purpose.OPTIMIZER)


def same(drawn: NDArray[np.int64] | None, expected: NDArray[np.int64] | None) -> bool:
    return drawn is not None and expected is not None and np.array_equal(drawn, expected)


@given(st.lists(st.lists(st.integers(0, 8), max_size=4, unique=True), max_size=12))
def test_rounds_have_the_samples_that_each_draws_alone(cohorts: list[list[int]]) -> None:
    """Empty rounds among them; numbers of rounds need not be consecutive."""
    turns = [Reports(np.array(cohort, dtype=np.int64)) for cohort in cohorts]
    numbers = 3 * np.arange(len(turns)) + 5
    pairs = list(with_minibatches(turns, numbers, WORK, DRAWS))
    assert [reports for reports, _ in pairs] == turns
    for (reports, drawn), number in zip(pairs, numbers.tolist(), strict=True):
        assert same(drawn, WORK.minibatches(DRAWS, number, reports.clients))


def test_reports_of_a_buffered_server_draw_by_the_version_that_they_began_with() -> None:
    """And a client that began twice with the same draws apart."""
    case = Case(clients=4, concurrency=4, buffer=6, versions=20)
    log = Cohorts.read(*buffered_tables(case), case.clients, case.buffer)
    turns = list(log.in_turn())
    assert any(reports.repeats is not None and reports.repeats.any() for reports in turns)
    for reports, drawn in with_minibatches(turns, log.rounds, WORK, DRAWS):
        assert reports.begun is not None
        assert reports.repeats is not None
        assert drawn is not None
        sessions = zip(reports.clients, reports.begun, reports.repeats, strict=True)
        for place, (client, begun, repeat) in enumerate(sessions):
            alone = WORK.minibatches(DRAWS, int(log.rounds[begun]), np.array([client + 9 * repeat]))
            assert alone is not None
            assert np.array_equal(drawn[:, [place]], alone)


def test_nothing_is_drawn_for_full_gradients() -> None:
    work = LocalWork.checked(WORK.problem, 2, 0.1)
    turns = [Reports(np.array([1, 2])), Reports(np.array([], dtype=np.int64))]
    assert list(with_minibatches(iter(turns), np.arange(2), work, DRAWS)) == [(turns[0], None), (turns[1], None)]
