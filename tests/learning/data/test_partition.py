import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import dirichlet as dirichlet_law

from fedsim.learning import LearningError
from fedsim.learning.data.choice import dirichlet, iid, shards

LABELS = np.arange(1000) % 10


def shares(members: NDArray[np.int64], labels: NDArray[np.int64] = LABELS) -> NDArray[np.float64]:
    """Return the share of each label at each client, shape (N, C)."""
    count = int(labels.max()) + 1
    counts = np.stack([np.bincount(labels[rows], minlength=count) for rows in members])
    return np.asarray(counts / members.shape[1])


@settings(max_examples=40, deadline=None)
@given(
    samples=st.integers(1, 200),
    clients=st.integers(1, 20),
    seed=st.integers(0, 2**64 - 1),
    concentration=st.floats(1e-3, 1e3),
)
def test_everyone_gets_as_much_and_nothing_twice(samples: int, clients: int, seed: int, concentration: float) -> None:
    """Whatever the partition: equal numbers, no sample with two owners, less than N (or 2 N) left over."""
    labels = (np.arange(samples) ** 2 % 7).astype(np.int64)
    if samples >= clients:
        for members in (iid(samples, clients, seed), dirichlet(labels, clients, seed, concentration)):
            assert members.shape == (clients, samples // clients)
            assert len(np.unique(members)) == members.size
    if samples >= 2 * clients:
        for shuffled in (True, False):
            members = shards(labels, clients, seed, 2, shuffled=shuffled)
            assert members.shape == (clients, samples // (2 * clients) * 2)
            assert len(np.unique(members)) == members.size


def test_the_same_seed_gives_the_same_partition() -> None:
    for first, again, other in (
        [iid(1000, 9, seed) for seed in (3, 3, 4)],
        [dirichlet(LABELS, 9, seed, 0.3) for seed in (3, 3, 4)],
        [shards(LABELS, 9, seed) for seed in (3, 3, 4)],
    ):
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


def test_with_two_shards_a_client_knows_few_labels() -> None:
    """A shard spans at most two labels here, so a client at most four; most know two."""
    labels = (shares(shards(LABELS, 50, 1)) > 0).sum(axis=1)
    assert labels.max() <= 4
    assert np.median(labels) == 2


def test_shards_in_order_go_by_the_index() -> None:
    """Client 0 has the first label, the last client the last one."""
    members = shards(LABELS, 50, 1, shuffled=False)
    means = LABELS[members].mean(axis=1)
    assert (np.diff(means) >= 0).all()
    assert (means[0], means[-1]) == (0.0, 9.0)


def test_concentration_rules_how_unlike_clients_are() -> None:
    """Distance of the clients' labels from the common mixture falls with the concentration."""
    labels = np.repeat(np.arange(10), 1000)
    apart = [np.abs(shares(dirichlet(labels, 50, 2, c), labels) - 0.1).sum(axis=1).mean() for c in (0.01, 0.1, 1, 100)]
    assert apart == sorted(apart, reverse=True)
    assert apart[0] > 1.3
    assert apart[-1] < 0.3


@pytest.mark.long
def test_proportions_have_the_dirichlet_variance() -> None:
    """Few clients among many samples: the variance of a share is that of the law, plus that of drawing n samples.

    400 shares; the standard error of a variance is about 10 %: 40 % is missed less than once in 10,000 times.
    """
    each = 1_000
    labels = np.repeat(np.arange(4), each)
    proportions = np.concatenate([shares(dirichlet(labels, 10, seed, 0.5), labels)[:1] for seed in range(100)])
    distribution = dirichlet_law([0.5] * 4)
    variance = distribution.var()[0]
    # Only the first client of each seed, which may draw late: others have taken a tenth each.
    expected = variance + (distribution.mean()[0] * (1 - distribution.mean()[0]) - variance) / (4 * each // 10)
    assert proportions.var() == pytest.approx(expected, rel=0.4)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(LearningError, match="5 samples cannot be shared among 6 clients"):
        iid(5, 6, 0)
    with pytest.raises(LearningError, match="5 samples cannot be shared among 6 shards"):
        shards(LABELS[:5], 3, 0)
