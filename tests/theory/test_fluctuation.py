"""Asymptotic variances: by hand, against one another, and against replicas; and the rounds that they call for."""

import numpy as np
import pytest

from fedsim.common.errors import ChainError
from fedsim.theory import Fluctuation, asymptotic_variance, exact, rounds_needed
from fedsim.theory.monte_carlo import rounds_of
from fedsim.theory.question import ask, reduced

WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


@pytest.mark.parametrize("method", ["exact", "mean-field"])
def test_independent_rounds_have_binomial_variance(method: str) -> None:
    p = WEIGHTS / WEIGHTS.sum()
    found = asymptotic_variance(WEIGHTS, 0, method=method)
    np.testing.assert_allclose(found.variance, p * (1.0 - p), rtol=1e-12)
    np.testing.assert_allclose(found.pi, p, rtol=1e-12)


def test_taking_turns_does_not_fluctuate() -> None:
    for law, separation in (("midzuno", 2), ("cyclic", 1)):
        found = asymptotic_variance(WEIGHTS, separation, 2, law)
        np.testing.assert_allclose(found.variance, 0.0, atol=1e-12)
        assert rounds_needed(found).tolist() == [1.0] * 6


def test_one_waiting_client_is_a_renewal_process() -> None:
    """Client 0 waits one round, the others none: its cycle is 1 + a geometric wait, so renewal theory is exact."""
    rounds = [1, 0, 0, 0, 0, 0]
    found, renewal = (asymptotic_variance(WEIGHTS, rounds, method=m) for m in ("exact", "mean-field"))
    assert renewal.variance[0] == pytest.approx(found.variance[0], rel=1e-10)


@pytest.mark.parametrize(
    ("rounds", "cohort", "law"),
    [
        ([0, 1, 2, 1, 0, 0], 2, "midzuno"),
        ([3] * 6, 1, "midzuno"),
        ([1] * 6, 2, "successive"),
        ([0, 1, 1, 1, 0, 0], 2, "bernoulli"),
        ([1] * 6, 2, "groups"),
    ],
)
def test_exact_variance_agrees_with_replicas(rounds: list[int], cohort: int, law: str) -> None:
    """400 replicas of 400 rounds, 5 standard errors of a variance (7 %): a false alarm in 1 of 10,000 runs."""
    found = asymptotic_variance(WEIGHTS, rounds, cohort, law)
    sampled = asymptotic_variance(WEIGHTS, rounds, cohort, law, "monte-carlo", seed=1, replicas=400, rounds=400)
    assert (found.method, sampled.method) == ("exact", "monte-carlo")
    assert sampled.standard_error is not None
    assert (np.abs(sampled.variance - found.variance) < 5.0 * sampled.standard_error).all()
    np.testing.assert_allclose(found.pi, exact(WEIGHTS, rounds, cohort, law).pi, rtol=1e-9)


@pytest.mark.parametrize("separation", [1, 2, 3])
def test_renewal_theory_is_close_in_a_moderate_system(separation: int) -> None:
    weights = np.random.default_rng(1).uniform(0.3, 1.0, 10)
    found, renewal = (asymptotic_variance(weights, separation, method=m) for m in ("exact", "mean-field"))
    np.testing.assert_allclose(renewal.variance, found.variance, rtol=0.15)


def test_auto_falls_back_on_renewal_theory_in_large_systems() -> None:
    assert asymptotic_variance(np.ones(1_000), 50).method == "mean-field"


@pytest.mark.long
def test_frequencies_are_within_precision_after_the_rounds_needed() -> None:
    """Play the rounds needed for 10 % at 90 % in 1,000 replicas: 90 % of them, give or take 4 %, are within 10 %.

    That is 4 standard deviations of a binomial share; rounding and skewness take some of the margin.
    """
    separation = [0, 1, 2, 1, 0, 0]
    fluctuation = asymptotic_variance(WEIGHTS, separation, 1)
    needed = rounds_needed(fluctuation, 0.1, 0.9)
    client = int(np.argmax(needed))
    length = int(needed[client])
    play = rounds_of(reduced(ask(WEIGHTS, separation, 1)), range(1_000), 3)
    counts = np.zeros(1_000)
    for now in range(length + 50):
        chosen = next(play).chosen[:, client]
        if now >= 50:
            counts += chosen
    within = np.abs(counts / length / fluctuation.pi[client] - 1.0) <= 0.1
    assert float(within.mean()) == pytest.approx(0.9, abs=0.04)


def test_rounds_needed_follow_the_formula() -> None:
    fluctuation = Fluctuation(pi=np.array([0.1, 0.9]), variance=np.array([0.09, 0.09]), method="exact")
    needed = rounds_needed(fluctuation, 0.05, 0.95)
    np.testing.assert_array_equal(needed, np.ceil(0.09 * (1.959963984540054 / (0.05 * fluctuation.pi)) ** 2))
    assert (rounds_needed(fluctuation, 0.5) < needed).all()
    unseen = Fluctuation(pi=np.array([0.0, 1.0]), variance=np.zeros(2), method="monte-carlo")
    assert rounds_needed(unseen).tolist() == [float("inf"), 1.0]


@pytest.mark.parametrize(
    ("precision", "confidence", "words"),
    [(0.0, 0.9, "precision is 0.0"), (float("nan"), 0.9, "precision is nan"), (0.1, 1.0, "confidence is 1.0")],
)
def test_senseless_precision_is_refused(precision: float, confidence: float, words: str) -> None:
    with pytest.raises(ChainError, match=words):
        rounds_needed(asymptotic_variance(WEIGHTS, 0), precision, confidence)


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(ChainError, match="no method 'guess'"):
        asymptotic_variance(WEIGHTS, 0, method="guess")
    with pytest.raises(ChainError, match=r"too many for the exact variance|limit of the exact method"):
        asymptotic_variance(np.ones(10), 4, method="exact")
    with pytest.raises(ChainError, match="number of replicas is 2"):
        asymptotic_variance(WEIGHTS, 0, method="monte-carlo", replicas=2)
