"""Midzuno's selection, the law of the paper: one client by weight, the others uniformly.

A set S of eligible clients is selected with a probability proportional to sum_{i in S} p_i.

References
----------
H. Midzuno, *On the sampling system with probability proportionate to sum of sizes*, Annals of the Institute of
Statistical Mathematics 3, 1952.
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.law import Candidates, Request, Streams
from fedsim.selection.proposals import WeightedProposals, ask_first, draw


class Midzuno:
    """The paper's law: one client by weight, and the rest uniformly."""

    theory = "midzuno"
    finds_shortage = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._weighted = WeightedProposals(len(weights), streams, weights)
        self._even = WeightedProposals(len(weights), streams)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the client that was drawn by weight, then the others."""
        rest = request.count - 1
        first, second = ask_first(request, [(self._weighted, 1), (self._even, rest)], candidates)
        leader = draw(self._weighted, request, 1, candidates, first=first)
        others = draw(self._even, request, rest, candidates, leader, second)
        return np.concatenate([leader, others])
