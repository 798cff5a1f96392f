import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learning.optimizers.by_participant import ByParticipant, RemembersParticipants


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
