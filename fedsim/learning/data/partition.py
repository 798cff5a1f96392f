"""Partitions of samples: random, by Dirichlet proportions of the labels, or by shards of sorted labels.

Every client gets n = (samples) // N samples; the rest is left out. Every function raises a `LearningError` if there are
fewer samples than clients (or shards).
"""

import numpy as np
from scipy.special import gammaincinv

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.learning.failures import LearningError

# Where each family of draws begins among the indices, and the index of what belongs to no client.
_FEDERATION = 2**62 + 1
_SHUFFLE, _TURN, _PROPORTIONS, _PICKS = (family << 40 for family in range(4))


def iid(samples: int, clients: int, seed: int) -> Ints:
    """Return a random partition, shape (N, n)."""
    each = _each(samples, clients)
    return _shuffled(samples, _draws(seed))[: clients * each].reshape(clients, each)


def shards(labels: Ints, clients: int, seed: int, per_client: int = 2, *, shuffled: bool = True) -> Ints:
    """Return a partition by label shards, shape (N, n).

    Samples sorted by label are cut into N x `per_client` shards of one size, and every client gets `per_client` of
    them, so it has few labels. Without `shuffled` clients get them in order, so the labels follow the client's index,
    and with it its group.

    McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, AISTATS 2017,
    arXiv:1602.05629, section 3, with 2 shards.
    """
    size = _each(len(labels), clients * per_client, "shards")
    draws = _draws(seed)
    mixed = _shuffled(len(labels), draws)
    by_label = mixed[np.argsort(labels[mixed], kind="stable")]
    # What does not fill the shards is left out evenly, not from the last label alone.
    kept = by_label[np.arange(clients * per_client * size) * len(labels) // (clients * per_client * size)]
    pieces = kept.reshape(clients * per_client, size)
    if shuffled:
        pieces = pieces[np.argsort(draws.bits(_FEDERATION, _TURN + np.arange(len(pieces))))]
    return pieces.reshape(clients, per_client * size)


def dirichlet(labels: Ints, clients: int, seed: int, concentration: float) -> Ints:
    """Return a partition with Dirichlet proportions of the labels, shape (N, n).

    Client i draws proportions q_i ~ Dirichlet(concentration x C x (shares of the C labels)), then its samples one by
    one: a label from q_i, among those that are left, and any of its samples. A small concentration gives nearly one
    label each, a large one the same mixture to all. Clients draw in random order, since the last ones take what the
    others left.

    Hsu, Qi and Brown, *Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification*,
    2019, arXiv:1909.06335.
    """
    each = _each(len(labels), clients)
    draws = _draws(seed)
    mixed = _shuffled(len(labels), draws)
    left = [mixed[labels[mixed] == label].tolist() for label in np.unique(labels)]
    counts = np.array([len(samples) for samples in left])
    prior = concentration * len(counts) * counts / counts.sum()
    members = np.empty((clients, each), dtype=np.int64)
    for client in np.argsort(draws.bits(_FEDERATION, _TURN + np.arange(clients))):
        proportions = _gammas(prior, draws.uniforms(client, _PROPORTIONS + np.arange(len(prior))))
        for k, uniform in enumerate(draws.uniforms(client, _PICKS + np.arange(each))):
            mass = np.cumsum(np.where(counts > 0, proportions, 0.0))
            if mass[-1] <= 0.0:
                # All labels that this client wants are gone: it takes what there is.
                mass = np.cumsum(counts.astype(np.float64))
            label = int(np.searchsorted(mass, uniform * mass[-1], side="right"))
            members[client, k] = left[label].pop()
            counts[label] -= 1
    return members


def _gammas(shape: Floats, uniforms: Floats) -> Floats:
    """Return gamma variates by inversion, up to a common factor; the likeliest one alone where all underflow."""
    found = np.asarray(gammaincinv(shape, uniforms), dtype=np.float64)
    return found if found.any() else (np.log(uniforms) / shape == (np.log(uniforms) / shape).max()).astype(np.float64)


def _draws(seed: int) -> Stream:
    return stream(seed, 0, Purpose.PROBLEM)


def _shuffled(samples: int, draws: Stream) -> Ints:
    return np.argsort(draws.bits(_FEDERATION, _SHUFFLE + np.arange(samples))).astype(np.int64)


def _each(samples: int, parts: int, what: str = "clients") -> int:
    if samples < parts:
        raise LearningError(f"{samples:,} samples cannot be shared among {parts:,} {what}")
    return samples // parts
