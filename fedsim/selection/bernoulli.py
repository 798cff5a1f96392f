"""Bernoulli selection: each eligible client by itself, so that a cohort of the size that is wanted is expected.

Client i is selected with probability min(1, s p_i), s such that these sum to the size; all are, where there are no more
than that.
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.law import Candidates, Request, Streams


class Bernoulli:
    """Each client by itself, by weight, so that `cohort` are expected."""

    theory = "bernoulli"
    random_size = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._weights, self._draws = weights, streams(Purpose.LEADER_RACE)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those whose draw falls below their chance, in the order of their indices."""
        eligible = np.flatnonzero(candidates.all_eligible())
        chances = bernoulli_chances(self._weights[eligible], request.count)
        return eligible[self._draws.uniforms(eligible, request.number) < chances]


def bernoulli_chances(weights: Floats, size: int) -> Floats:
    """Return min(1, s p_i) with sum `size` over the (n,) eligible clients, or ones when n <= size."""
    if weights.size <= size:
        return np.ones_like(weights)
    certain = np.zeros(weights.shape, dtype=np.bool_)
    while True:
        left = size - int(np.count_nonzero(certain))
        chances = np.where(certain, 1.0, weights * (left / weights[~certain].sum()))
        over = ~certain & (chances >= 1.0)
        if not over.any():
            return chances
        certain |= over
