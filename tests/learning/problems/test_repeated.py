"""Data of clients that train for several optimizers are taken once, where that is what they do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learning.problems.problem import repeated_cohort


@given(st.lists(st.integers(0, 3), max_size=8), st.integers(1, 4), st.booleans())
def test_what_is_taken_once_is_all_that_there_is(cohort: list[int], count: int, sampled: bool) -> None:
    """Whatever stands there, cohorts that are not repeated among them."""
    clients = np.array(cohort * count, dtype=np.int64)
    samples = np.arange(2 * len(cohort)).reshape(-1, 2)
    drawn = np.tile(samples, (count, 1)) if sampled else None
    first, batches, times = repeated_cohort(clients, drawn)
    assert np.array_equal(np.tile(first, times), clients)
    if drawn is not None:
        assert batches is not None
        assert np.array_equal(np.tile(batches, (times, 1)), drawn)
    if len(set(cohort)) == len(cohort) > 0:
        assert times == count


def test_samples_of_several_steps_are_those_of_each() -> None:
    """They are another cohort's as soon as one step of one client has others."""
    clients, samples = np.array([1, 2, 1, 2]), np.arange(12).reshape(3, 2, 2)
    twice = np.concatenate([samples, samples], axis=1)
    first, batches, times = repeated_cohort(clients, twice)
    assert (first.tolist(), times) == ([1, 2], 2)
    assert batches is not None
    assert np.array_equal(batches, samples)
    twice[2, 3, 1] += 1
    assert repeated_cohort(clients, twice)[2] == 1
