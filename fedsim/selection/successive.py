"""Successive selection (Plackett-Luce): one client after the other, by weight among those that are left."""

import numpy as np
from numpy.typing import NDArray

from fedsim.selection.candidates import Candidates
from fedsim.selection.law import Request, Streams
from fedsim.selection.proposals import WeightedProposals, draw


class Successive:
    """Selects by weight, again and again. It has no options."""

    theory = "successive"
    finds_shortage = True

    def __init__(self, weights: NDArray[np.float64], streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams, weights)

    def select(self, request: Request, candidates: Candidates) -> NDArray[np.int64]:
        """Return clients drawn one after the other."""
        return draw(self._proposals, request, request.count, candidates)
