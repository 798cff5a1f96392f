"""Questions that make no sense get an error that shows the value, what is wrong, and the remedy."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, distances, stationary
from fedsim.theory.question import ask, largest_separation

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("weights", "separation", "cohort", "law", "words"),
    [
        ([], 0, 1, "midzuno", "population is empty"),
        ([1.0, -2.0], 0, 1, "midzuno", r"weight of client 1 is -2\.0"),
        ([1.0, 0.0, 0.0], 0, 1, "midzuno", r"weight of client 1 is 0\.0 \(and 1 more\)"),
        ([NAN, 1.0], 0, 1, "midzuno", "weight of client 0 is nan"),
        ([INF, 1.0], 0, 1, "midzuno", "weight of client 0 is inf"),
        ([1e300, 1e-300], 0, 1, "midzuno", "weight of client 1 is .* too little"),
        ([[1.0, 2.0]], 0, 1, "midzuno", r"shape \(1, 2\)"),
        (["a", "b"], 0, 1, "midzuno", "not numbers"),
        ([1.0, 2.0], -1, 1, "midzuno", "separation is -1"),
        ([1.0, 2.0], 0.5, 1, "midzuno", "separation is 0.5: it must be a whole number"),
        ([1.0, 2.0], NAN, 1, "midzuno", "separation is nan: it must be a whole number"),
        ([1.0, 2.0], True, 1, "midzuno", "separation is True"),
        ([1.0, 2.0], [0, -3], 1, "midzuno", "separation of client 1 is -3"),
        ([1.0, 2.0], [0, 0.25], 1, "midzuno", "separation of client 1 is 0.25"),
        ([1.0, 2.0], [0, 0, 0], 1, "midzuno", r"shape \(3,\) and there are 2 clients"),
        ([1.0, 2.0], [[0], [1, 2]], 1, "midzuno", "neither a number nor a list"),
        ([1.0, 2.0], 0, 0, "midzuno", "cohort is 0: it must be at least 1"),
        ([1.0, 2.0], 0, -1, "midzuno", "cohort is -1"),
        ([1.0, 2.0], 0, 3, "midzuno", "cohort is 3, more than the 2 clients"),
        ([1.0, 2.0], 0, 1.5, "midzuno", "cohort is 1.5: it must be a whole number"),
        ([1.0, 2.0], 0, "two", "midzuno", "cohort is 'two'"),
        ([1.0, 2.0], 2, 1, "midzuno", "lower the separation to 1"),
        ([1.0] * 10, 4, 3, "midzuno", "at most 2 rounds each: lower the separation to 2, or the cohort to 2"),
        ([1.0, 2.0], 0, 1, "lottery", "no selection law 'lottery'"),
        ([1.0] * 5, 0, 2, "groups", "5 clients do not divide into groups of 2"),
        ([1.0] * 4, [0, 1, 2, 1], 2, "cyclic", "separation of client 2 is 2"),
        ([1.0] * 4, [1, 1, 1, 2], 2, "midzuno", "at most 1.83333 participations a round.*lower the cohort to 1"),
        ([1.0] * 2, [2, 3], 1, "midzuno", "no cohort is small enough"),
    ],
)
def test_senseless_questions_are_refused(
    weights: ArrayLike, separation: ArrayLike, cohort: int, law: str, words: str
) -> None:
    with pytest.raises(ChainError, match=words):
        stationary(weights, separation, cohort, law)
    with pytest.raises(ChainError):
        closed_form(weights, separation, cohort, law)


def test_distances_refuse_a_separation_that_is_out_of_reach() -> None:
    with pytest.raises(ChainError, match="lower the separation to 3"):
        distances([1.0, 2.0, 3.0, 4.0], [0, 1, 9])
    with pytest.raises(ChainError, match="separation is -1"):
        distances([1.0, 2.0], [0, -1])
    with pytest.raises(ChainError, match="whole number"):
        distances([1.0, 2.0], np.array([0.0, 0.5]))  # type: ignore[arg-type]


def test_equal_separations_count_as_one_common_separation() -> None:
    assert ask([1.0, 2.0, 3.0], [1, 1, 1]).separation == 1
    assert ask([1.0, 2.0, 3.0], np.array([1.0, 1.0, 1.0])).separation == 1
    assert ask([1.0, 2.0, 3.0], 2.0).separation == 2
    assert ask([1.0, 2.0, 3.0], [0, 1, 1]).separations.tolist() == [0, 1, 1]


def test_a_single_client_takes_part_every_round() -> None:
    answer = stationary([3.0], 0)
    assert answer.pi.tolist() == [1.0]
    assert (answer.l1_uniform, answer.ratio, answer.clients) == (0.0, 1.0, 1)


def test_the_largest_separation_is_that_of_taking_turns() -> None:
    assert [largest_separation(10, b) for b in (1, 3, 5, 10)] == [9, 2, 1, 0]
