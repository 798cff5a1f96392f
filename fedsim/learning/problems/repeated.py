"""Clients that stand several times in a row, once for each optimizer that they train for: their data are taken once."""

import numpy as np

from fedsim.common.arrays import Ints


def once(clients: Ints, samples: Ints | None = None) -> tuple[Ints, Ints | None, int]:
    """Return the clients (and their samples) of one cohort, and how often it stands there, one after the other.

    Parameters
    ----------
    clients
        Shape (M,).
    samples
        Shape (M, batch size), or that of each of K steps, (K, M, batch size); None for all samples.
    """
    count = int(np.count_nonzero(clients == clients[0])) if len(clients) else 1
    if count == 1 or len(clients) % count:
        return clients, samples, 1
    size = len(clients) // count
    first, batches = clients[:size], None if samples is None else samples[..., :size, :]
    same = clients.tobytes() == first.tobytes() * count
    if same and samples is not None:
        *steps, _, batch_size = samples.shape
        same = bool((samples.reshape(*steps, count, size, batch_size) == samples[..., None, :size, :]).all())
    return (first, batches, count) if same else (clients, samples, 1)
