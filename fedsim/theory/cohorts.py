"""The law of one round: every cohort that can be chosen among the ready clients, with its probability.

Midzuno: P(S) proportional to the sum of its weights, abs(S) = B (Sun et al. 2025, section 3). Successive
(Plackett-Luce): B draws without replacement, each proportional to weight among those left. Bernoulli: each
ready client independently, client i with probability min(1, s p_i), s such that B are expected; all of them
when at most B are ready.
"""

from itertools import combinations

import numpy as np

from fedsim.common.arrays import Bools, Floats
from fedsim.common.errors import ChainError
from fedsim.selection.bernoulli import bernoulli_chances


class ChainTooLargeError(ChainError):
    """The chain is too large to enumerate: see the message for what to use instead."""


_LARGEST_ORDERED = 12  # successive draws: 2^B partial cohorts
_LARGEST_FREE = 16  # bernoulli: 2^n cohorts


def cohorts(law: str, weights: Floats, size: int) -> tuple[Bools, Floats]:
    """Enumerate the cohorts of one round.

    Parameters
    ----------
    law
        ``midzuno``, ``successive`` or ``bernoulli``.
    weights
        (n,) weights of the ready clients; n >= `size` unless the law is ``bernoulli``.
    size
        Clients wanted, B.

    Returns
    -------
    members
        (cohorts, n) which ready clients each cohort holds.
    chances
        (cohorts,) their probabilities, which sum to 1.

    Raises
    ------
    ChainTooLargeError
        If there are too many cohorts to enumerate.
    """
    members, chances = _bernoulli(weights, size) if law == "bernoulli" else _of_size(law, weights, size)
    possible = chances > 0.0  # a product of tiny weights can underflow
    return members[possible], chances[possible] / chances.sum()


def _of_size(law: str, weights: Floats, size: int) -> tuple[Bools, Floats]:
    chosen = np.array(list(combinations(range(weights.size), size)), dtype=np.intp).reshape(-1, size)
    members = np.zeros((len(chosen), weights.size), dtype=np.bool_)
    np.put_along_axis(members, chosen, values=True, axis=1)
    chances = weights[chosen].sum(axis=1) if law == "midzuno" else _plackett_luce(weights[chosen], members, weights)
    return members, chances


def _plackett_luce(own: Floats, members: Bools, weights: Floats) -> Floats:
    """P(S) by recursion over the sets of members drawn first; the mass left is summed, never subtracted."""
    size = own.shape[1]
    if size > _LARGEST_ORDERED:
        raise ChainTooLargeError(
            f"a cohort of {size} can be drawn in too many orders: the exact law of successive draws goes up "
            f"to {_LARGEST_ORDERED}; use the method 'mean-field' or 'monte-carlo'"
        )
    outside = np.where(members, 0.0, weights).sum(axis=1)
    drawn = [np.ones(len(own))]
    for first in range(1, 1 << size):
        total = np.zeros(len(own))
        for last in range(size):
            if first >> last & 1:
                before = first ^ 1 << last
                left = outside + sum(own[:, k] for k in range(size) if not before >> k & 1)
                total += drawn[before] * own[:, last] / left
        drawn.append(total)
    return drawn[-1]


def _bernoulli(weights: Floats, size: int) -> tuple[Bools, Floats]:
    chances = bernoulli_chances(weights, size)
    free = np.flatnonzero(chances < 1.0)
    if free.size > _LARGEST_FREE:
        raise ChainTooLargeError(
            f"with {free.size} clients that may or may not take part there are 2^{free.size} cohorts a round: "
            f"the exact method goes up to 2^{_LARGEST_FREE}; use the method 'mean-field' or 'monte-carlo'"
        )
    members = np.ones((1 << free.size, weights.size), dtype=np.bool_)
    members[:, free] = (np.arange(1 << free.size)[:, None] >> np.arange(free.size)) & 1
    return members, np.where(members, chances, 1.0 - chances).prod(axis=1)
