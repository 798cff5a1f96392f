"""Poisson selection: each eligible client by itself with a constant probability, B p_i and at most 1.

With a separation this is b-min-sep sampling: a client's gaps are R_i + Geometric(B p_i), independent of all others. A
round takes all who are drawn, perhaps none, and never waits. B is the cohort, over-selection included.
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.law import Candidates, Request, Streams


class Poisson:
    """Each client by itself with the constant probability cohort p_i, so that rounds never wait."""

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
