"""What chance does to the frequencies of a run, estimated from batch means."""

import math

import numpy as np

from fedsim.common.arrays import Ints

BATCHES = 20
_FEWEST_ROUNDS = 10 * BATCHES
_BLOCK = 1 << 14


class Batches:
    """Counts how often each client took part in each of 20 batches of rounds.

    Rounds are cut into the batches in order. A batch is long beside the memory of the chain, so that batches are nearly
    independent though rounds are not (method of batch means; Law, *Simulation Modeling and Analysis*, ch. 9).

    `chosen_in` are the numbers of the rounds that selected anyone, in ascending order; `clients` is N, and `most` the
    number of participations that there are at most.
    """

    def __init__(self, chosen_in: Ints, clients: int, most: int) -> None:
        self._counted, self._most = None, most
        if len(chosen_in) >= _FEWEST_ROUNDS:
            # A batch begins at each edge, a number of a round.
            self._edges = chosen_in[np.linspace(0, len(chosen_in), BATCHES + 1).astype(np.int64)[1:-1]]
            longest = -(-len(chosen_in) // BATCHES)
            self._counted = np.zeros((BATCHES, clients), dtype=np.min_scalar_type(longest))

    def add(self, number: Ints, client: Ints, *, once: bool = True) -> None:
        """Take the rounds and the clients of the next participations, in the order of rounds.

        `once` says that no client takes part twice in a round, as with a buffered server it may.
        """
        if self._counted is None:
            return
        if not once:
            self._counted = self._counted.astype(np.min_scalar_type(self._most), copy=False)
        pieces = np.split(client, np.searchsorted(number, self._edges))
        for counted, piece in zip(self._counted, pieces, strict=True):
            if len(piece):
                np.add.at(counted, piece, counted.dtype.type(1))

    def errors(self, counts: Ints) -> tuple[float, float] | None:
        """Return what chance does to frequencies; None if fewer than 200 rounds selected anyone, too few to tell.

        `counts`, (N,), say how often each client took part. Returned are the L1 distance between the frequencies and
        their long-run values to be expected from chance, sum_i sqrt(2 / pi) * se_i; and the standard error of the L1
        distance from uniform.
        """
        if self._counted is None:
            return None
        clients, frequency = len(counts), counts / counts.sum()
        side = np.sign(frequency - 1.0 / clients)
        squares, deviation, projected = np.zeros(clients), np.empty(clients), []
        blocks = [slice(first, first + _BLOCK) for first in range(0, clients, _BLOCK)]  # each stays in a cache
        for counted in self._counted:
            total = float(counted.sum())
            for block in blocks:
                deviation[block] = counted[block]
                deviation[block] /= total
                deviation[block] -= frequency[block]
                squares[block] += np.square(deviation[block])
            projected.append(float(side @ deviation))
        scale = BATCHES * (BATCHES - 1)
        noise = math.sqrt(2.0 / math.pi) * float(np.sqrt(squares / scale).sum())
        return noise, math.sqrt(math.fsum(value**2 for value in projected) / scale)
