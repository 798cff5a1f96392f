"""Uniform selection: every set of eligible clients, of as many as are wanted, with the same probability."""

import numpy as np
from numpy.typing import NDArray

from fedsim.selection.candidates import Candidates
from fedsim.selection.law import Request, Streams
from fedsim.selection.proposals import WeightedProposals, draw


class Uniform:
    """Selects uniformly. It has no options."""

    theory = "uniform"
    finds_shortage = True

    def __init__(self, weights: NDArray[np.float64], streams: Streams) -> None:
        self._even = WeightedProposals(len(weights), streams)

    def select(self, request: Request, candidates: Candidates) -> NDArray[np.int64]:
        """Return clients drawn one after the other, each uniformly among those that are left."""
        return draw(self._even, request, request.count, candidates)
