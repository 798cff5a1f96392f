"""The frequencies counted so far: against the binomial law, and against what a separation does to one round's law."""

import sys

import numpy as np
import pytest
from scipy.stats import binom

from fedsim.common.errors import ChainError
from fedsim.theory import convergence, running_frequencies

WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


def test_without_a_separation_counts_are_binomial() -> None:
    """E abs(X/t - p) summed over clients, X binomial, within four standard errors at every t."""
    course = running_frequencies(WEIGHTS, 0, rounds=40, replicas=4_000)
    shares = WEIGHTS / WEIGHTS.sum()
    for t in (1, 2, 7, 40):
        counts = np.arange(t + 1)[:, None]
        expected = (binom.pmf(counts, t, shares) * np.abs(counts / t - shares)).sum()
        assert abs(course.l1[t - 1] - expected) < 4.0 * course.standard_error[t - 1] + 1e-12


@pytest.mark.parametrize("law", ["midzuno", "successive", "uniform", "groups", "bernoulli"])
def test_frequencies_settle_under_every_law(law: str) -> None:
    course = running_frequencies(WEIGHTS, 1, 2, law, rounds=2_000, replicas=20)
    assert course.l1[-1] < 0.06
    assert course.l1[-1] < 0.2 * course.l1[0]


def test_a_longer_separation_settles_the_counts_sooner_and_one_round_later() -> None:
    """Both at N = 6, B = 1: what the paper says of the mixing time holds for the counts, not for the law of a round."""
    counted = [running_frequencies(WEIGHTS, r, rounds=30, replicas=400).l1[-1] for r in range(1, 5)]
    one_round = [np.flatnonzero(convergence(WEIGHTS, r, rounds=80).tv >= 0.01).max() for r in range(1, 5)]
    assert (np.diff(counted) < 0.0).all()
    assert (np.diff(one_round) > 0).all()


def test_taking_turns_counts_evenly_though_one_round_never_settles() -> None:
    """At N = (R + 1) B, with everyone ready, each has taken part once after every N/B rounds."""
    course = running_frequencies(WEIGHTS, 5, rounds=12, replicas=10)
    np.testing.assert_allclose(course.l1[[5, 11]], 0.0, atol=1e-12)
    assert course.l1[2] == pytest.approx(1.0)


def test_a_group_is_counted_as_its_clients() -> None:
    """The sum over the clients of a group is the distance of the group."""
    single = running_frequencies([3.0, 2.0, 1.0], 1, rounds=5, replicas=50)
    groups = running_frequencies(np.repeat([3.0, 2.0, 1.0], 2) / 2, 1, 2, "groups", rounds=5, replicas=50)
    np.testing.assert_allclose(groups.l1, single.l1, rtol=1e-9)


def test_batches_of_replicas_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = running_frequencies(WEIGHTS, 2, rounds=10, replicas=30)
    monkeypatch.setattr(sys.modules["fedsim.theory.convergence"], "CELLS", 7 * 6)
    parts = running_frequencies(WEIGHTS, 2, rounds=10, replicas=30)
    np.testing.assert_allclose(parts.l1, whole.l1, rtol=1e-12)
    np.testing.assert_allclose(parts.standard_error, whole.standard_error, rtol=1e-9)


def test_senseless_questions_are_refused() -> None:
    with pytest.raises(ChainError, match="the number of rounds"):
        running_frequencies(WEIGHTS, 1, rounds=0)
    with pytest.raises(ChainError, match="the number of replicas"):
        running_frequencies(WEIGHTS, 1, replicas=1)
    other = convergence([1.0, 2.0], 0, rounds=1).limit
    with pytest.raises(ChainError, match="of 2 clients and there are 6"):
        running_frequencies(WEIGHTS, 1, limit=other)
