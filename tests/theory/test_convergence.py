"""The law of the participants, round by round: exact against sampled, and against what must hold."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fedsim.common.errors import ChainError
from fedsim.theory import closed_form, convergence

WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


@pytest.mark.parametrize("law", ["midzuno", "successive", "bernoulli", "uniform", "groups", "cyclic"])
@pytest.mark.parametrize("separation", [0, 1])
def test_sampled_laws_agree_with_exact_ones(law: str, separation: int) -> None:
    """Mean distance within 1.5 noise floors; the floor is its mean, and 12 laws of 8 rounds average the noise out."""
    truth = convergence(WEIGHTS, separation, 2, law, "exact", rounds=8)
    sampled = convergence(WEIGHTS, separation, 2, law, "monte-carlo", rounds=8, replicas=4_000, limit=truth.limit)
    gap = np.abs(sampled.eta - truth.eta).sum(axis=1) / 2.0
    assert sampled.noise_floor is not None
    assert truth.noise_floor is None
    assert gap.mean() <= 1.5 * sampled.noise_floor.mean() + 1e-12
    np.testing.assert_allclose(truth.eta.sum(axis=1), 1.0, rtol=1e-12)


def test_the_first_round_follows_the_weights_and_the_last_the_stationary_law() -> None:
    course = convergence(WEIGHTS, 2, rounds=200)
    np.testing.assert_allclose(course.eta[0], WEIGHTS / WEIGHTS.sum(), rtol=1e-12)
    np.testing.assert_allclose(course.eta[-1], closed_form(WEIGHTS, 2).pi, rtol=1e-9)
    assert course.method == "exact"
    assert course.tv[0] == pytest.approx(np.abs(course.eta[0] - course.limit.pi).sum() / 2.0)
    assert course.tv[-1] < 1e-9


def test_a_start_keeps_its_clients_waiting() -> None:
    start = [2, 1, 0, 0, 0, 0]
    for method in ("exact", "monte-carlo"):
        course = convergence(WEIGHTS, 2, method=method, rounds=3, start=start, replicas=50)
        assert (course.eta[0, :2] == 0.0).all()
        assert course.eta[1, 0] == 0.0
        assert course.eta[1, 1] > 0.0
        assert course.start.tolist() == start


def test_taking_turns_never_settles() -> None:
    course = convergence(WEIGHTS, 2, 2, "cyclic", rounds=6)
    np.testing.assert_allclose(course.tv, 2.0 / 3.0)


def test_a_system_too_large_to_enumerate_is_sampled() -> None:
    """The setting of the paper's appendix figure: N = 100, B = 1."""
    weights = np.random.default_rng(1).random(100)
    course = convergence(weights, 20, rounds=150, replicas=1_000)
    assert course.method == "monte-carlo"
    assert course.replicas == 1_000
    assert course.noise_floor is not None
    assert course.tv[0] > 10.0 * course.noise_floor[0]
    assert course.tv[-1] < 3.0 * course.noise_floor[-1]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ([0, 0, 0], r"start has shape \(3,\)"),
        ([0.5] * 6, "whole number of rounds"),
        ([3, 0, 0, 0, 0, 0], "client 0 has to wait 3 rounds"),
        ([0, -1, 0, 0, 0, 0], "client 1 has to wait -1 rounds"),
    ],
)
def test_senseless_starts_are_refused(start: ArrayLike, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        convergence(WEIGHTS, 2, start=start)


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(ChainError, match="cannot follow from"):
        convergence(WEIGHTS, 2, start=[2, 2, 0, 0, 0, 0], method="exact")
    with pytest.raises(ChainError, match="different waits"):
        convergence(WEIGHTS, 1, 2, "groups", start=[1, 0, 0, 0, 0, 0])
    with pytest.raises(ChainError, match="limit of the exact method"):
        convergence(np.ones(50), 10, method="exact")
    with pytest.raises(ChainError, match="no method 'mean-field' for convergence"):
        convergence(WEIGHTS, 1, method="mean-field")
    with pytest.raises(ChainError, match="of 2 clients and there are 6"):
        convergence(WEIGHTS, 1, limit=closed_form([1.0, 2.0], 0))
    with pytest.raises(ChainError, match="number of rounds is 0"):
        convergence(WEIGHTS, 1, rounds=0)
