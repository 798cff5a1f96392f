from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learning import Cohort, LocalSteps
from fedsim.learning.optimizers.ace import Ace
from fedsim.learning.optimizers.amplified import AmplifiedScaffold
from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants
from fedsim.learning.optimizers.fedawe import FedAwe
from fedsim.learning.optimizers.focus import Focus
from fedsim.learning.optimizers.mifa import Area, FedVarp, Mifa
from fedsim.learning.optimizers.scaffold import Scaffold


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9), max_size=8))
def test_it_is_a_table_of_everyone_in_less_room(cohorts: list[list[int]]) -> None:
    """Beside a matrix of all clients: the rows, who has one, and how their sum changes; the last of a client counts."""
    kept, matrix = ByParticipant(7, 2), np.zeros((7, 2))
    for number, cohort in enumerate(cohorts):
        clients, values = np.array(cohort), np.arange(2.0 * len(cohort)).reshape(-1, 2) + number
        before = matrix.sum(axis=0)
        for client, row in zip(cohort, values, strict=True):
            matrix[client] = row
        np.testing.assert_allclose(kept.keep(clients, values), matrix.sum(axis=0) - before, atol=1e-12)
        np.testing.assert_array_equal(kept.of(np.arange(7)), matrix)
    assert len(kept) == len({client for cohort in cohorts for client in cohort})


def test_its_memory_grows_with_the_participants() -> None:
    """Of a million clients a hundred have rows; what is held is at most what `size` says, and 8 bytes a client."""
    kept = ByParticipant(10**6, 1000)
    for client in range(100):
        kept.keep(np.array([client * 997]), np.ones((1, 1000)))
    held = kept._rows.nbytes
    assert 8 * 100 * 1000 <= held <= RemembersParticipants().memory(100, 1000)


@pytest.mark.parametrize(
    ("optimizer", "rows"),
    [
        *((each, [13]) for each in (Mifa(), FedVarp(), Scaffold(), Area(), Ace(), Ace(3), Focus())),
        (FedAwe(), [12]),  # but for the last cohort, which is given the model that comes next
        *((AmplifiedScaffold(interval), [13, 13]) for interval in (1, 4)),
        (AmplifiedScaffold(100), [0, 13]),
    ],
)
def test_what_an_optimizer_needs_grows_with_those_who_take_part(optimizer: Any, rows: list[int]) -> None:
    """With rows for each of the 13 participants among 1,000 clients, and never more than it says beforehand."""
    state, model = optimizer.init(1000, 30), np.zeros(30)
    for t in range(12):
        cohort = Cohort(t, np.array([t, t + 1]), downloaded=model)
        state, local = optimizer.prepare(state, cohort)
        if isinstance(local, LocalSteps) and local.rule is not None:
            local.rule(np.zeros((2, 30)), [lambda models: models + 1.0] * 2, np.ones(2))
        state, model = optimizer.apply(state, model, cohort, np.ones((2, 30)))
    kept = [getattr(state, name) for name in dir(state)]
    assert sorted(len(each) for each in kept if isinstance(each, ByParticipant)) == rows
    assert len(getattr(state, "recent", ())) <= 4
    assert optimizer.memory(13, 30) == 20 * 13 * 30 * len(rows)
