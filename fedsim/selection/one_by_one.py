"""Laws that draw one client, or one block of clients, after the other: successive, uniform, Midzuno's and by groups."""

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.selection.law import Candidates, Eligibility, Request, Streams
from fedsim.selection.proposals import WeightedProposals, ask_first, draw


class Successive:
    """One client after the other by weight among those that are left (Plackett-Luce)."""

    theory = "successive"
    finds_shortage = True

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams, weights)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients drawn one after the other."""
        return draw(self._proposals, request, request.count, candidates)


class UniformSelection(Successive):
    """Uniform: one client after the other, as if all weighed the same."""

    theory = "uniform"

    def __init__(self, weights: Floats, streams: Streams) -> None:
        self._proposals = WeightedProposals(len(weights), streams)


class Midzuno:
    """The paper's law: one client by weight, and the rest uniformly.

    A set S of eligible clients is selected with a probability proportional to sum_{i in S} p_i (H. Midzuno, *On the
    sampling system with probability proportionate to sum of sizes*, Annals of the Institute of Statistical Mathematics
    3, 1952).
    """

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


class Groups:
    """One block of `cohort` consecutive clients by the block's weight.

    Only wholly eligible blocks are drawn.
    """

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
