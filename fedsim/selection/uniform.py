"""Uniform selection: every set of eligible clients, of as many as are wanted, with the same probability."""

from fedsim.common.arrays import Floats
from fedsim.selection.law import Streams
from fedsim.selection.proposals import WeightedProposals
from fedsim.selection.successive import Successive


class UniformSelection(Successive):
    """Uniform: one client after the other, as if all weighed the same."""

    theory = "uniform"

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams)
