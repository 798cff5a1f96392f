"""The smallest separation that reaches a target, against a search through all of them."""

import numpy as np
import pytest

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, distances, smallest_separation

ZIPF = np.arange(1.0, 41.0) ** -1.5


@pytest.mark.parametrize(("cohort", "law"), [(1, "midzuno"), (3, "midzuno"), (4, "groups"), (1, "successive")])
@pytest.mark.parametrize("target", [1.5, 0.5, 0.2, 0.05])
def test_is_the_first_separation_that_reaches_the_distance(cohort: int, law: str, target: float) -> None:
    every = distances(ZIPF, range(40 // cohort), cohort, law)
    if every[-1] > target:
        with pytest.raises(ChainError, match=r"no separation reaches"):
            smallest_separation(ZIPF, cohort, law, target_l1=target)
        return
    first = int(np.argmax(every <= target))
    assert smallest_separation(ZIPF, cohort, law, target_l1=target).separation == first
    assert smallest_separation(ZIPF, cohort, law, target_tv=target / 2.0).separation == first


@pytest.mark.parametrize("target", [200.0, 10.0, 2.0, 1.1, 1.0])
def test_is_the_first_separation_that_reaches_the_ratio(target: float) -> None:
    every = [closed_form(ZIPF, rounds, 2).ratio for rounds in range(20)]
    assert (np.diff(every) <= 0.0).all()
    answer = smallest_separation(ZIPF, 2, target_ratio=target)
    assert answer.separation == int(np.argmax(np.array(every) <= target))
    assert answer.ratio <= target


def test_uniform_participation_needs_no_separation() -> None:
    for law in ("uniform", "cyclic"):
        assert smallest_separation(ZIPF, 4, law, target_l1=0.0).separation == 0
    assert smallest_separation(np.ones(10), target_l1=0.0).separation == 0


def test_a_target_out_of_reach_names_the_closest() -> None:
    """Seven clients in cohorts of two: one is left over, so no separation makes them uniform."""
    with pytest.raises(ChainError, match=r"the closest is 0\.\d+, at the largest separation .* can keep, 2"):
        smallest_separation(np.arange(1.0, 8.0), 2, target_l1=0.0)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ({}, "0 targets were given"),
        ({"target_l1": 0.1, "target_tv": 0.1}, "2 targets were given"),
        ({"target_l1": -0.1}, r"L1 distance from uniform is -0\.1"),
        ({"target_tv": float("nan")}, "is nan"),
        ({"target_ratio": 0.5}, "at least 1"),
    ],
)
def test_senseless_targets_are_refused(targets: dict[str, float], words: str) -> None:
    with pytest.raises(ChainError, match=words):
        smallest_separation(
            [1.0, 2.0, 3.0],
            target_l1=targets.get("target_l1"),
            target_tv=targets.get("target_tv"),
            target_ratio=targets.get("target_ratio"),
        )


def test_a_law_without_closed_form_is_refused() -> None:
    with pytest.raises(ChainError, match="no closed form"):
        smallest_separation([1.0, 2.0, 3.0, 4.0], 2, "successive", target_l1=0.1)
