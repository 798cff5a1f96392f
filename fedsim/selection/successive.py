"""Successive selection (Plackett-Luce): one client after the other, by weight among those that are left."""

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.law import Candidates, Request, Streams
from fedsim.selection.proposals import WeightedProposals, draw


class Successive:
    """One client after the other by weight among those that are left (Plackett-Luce)."""

    theory = "successive"
    finds_shortage = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams, weights)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients drawn one after the other."""
        return draw(self._proposals, request, request.count, candidates)
