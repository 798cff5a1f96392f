"""Selection by groups: one block of consecutive clients, by the weight of the block, among wholly eligible blocks."""

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.selection.law import Candidates, Eligibility, Request, Streams
from fedsim.selection.proposals import WeightedProposals, draw


class Groups:
    """One block of `cohort` consecutive clients by the block's weight."""

    theory = "groups"
    finds_shortage = True

    def __init__(self, weights: Floats, cohort: int, streams: Streams) -> None:
        of_blocks = weights.reshape(-1, cohort).sum(axis=1)
        self._weighted, self._cohort = WeightedProposals(len(of_blocks), streams, of_blocks), cohort

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the members of the block; none, if no block is wholly eligible."""
        block = draw(self._weighted, request, 1, _Blocks(candidates, self._cohort))
        return (block[:, np.newaxis] * self._cohort + np.arange(self._cohort)).ravel()


class _Blocks:
    """Which blocks of `size` consecutive clients are wholly eligible."""

    def __init__(self, now: Eligibility, size: int) -> None:
        self._eligibility, self._members = now, np.arange(size)

    def eligible(self, blocks: Ints) -> Bools:
        clients = blocks[:, np.newaxis] * len(self._members) + self._members
        return np.asarray(self._eligibility.eligible(clients.ravel()).reshape(clients.shape).all(axis=1))

    def all_eligible(self) -> Bools:
        return np.asarray(self._eligibility.all_eligible().reshape(-1, len(self._members)).all(axis=1))

    def ineligible_mask(self) -> None:
        """Blocks are asked about one by one."""
