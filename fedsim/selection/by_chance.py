"""Laws that decide about each eligible client by itself, so that the size of a cohort is random: Bernoulli, Poisson."""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.law import Candidates, Request, Streams


class Bernoulli:
    """Each client by itself, by weight, so that `cohort` are expected.

    Client i is selected with probability min(1, s p_i), s such that these sum to the size; all are, where there are no
    more than that.
    """

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


class Poisson:
    """Each client by itself with the constant probability cohort p_i, so that rounds never wait.

    It is 1 at most, and the cohort includes over-selection. A round takes all who are drawn, perhaps none. With a
    separation this is b-min-sep sampling: a client's gaps are R_i + Geometric(B p_i), independent of all others.
    """

    theory = "poisson"
    random_size = True

    def __init__(self, weights: Floats, cohort: int, streams: Streams) -> None:
        self._chances, self._draws = poisson_chances(weights, cohort), streams(Purpose.LEADER_RACE)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those whose draw falls below their chance, in the order of their indices."""
        eligible = np.flatnonzero(candidates.all_eligible())
        return eligible[self._draws.uniforms(eligible, request.number) < self._chances[eligible]]


def poisson_chances(weights: Floats, cohort: int) -> Floats:
    """Return min(1, B p_i) for all clients, shape (N,)."""
    return np.minimum(1.0, cohort * weights)
