"""Zipf's law: values that fall with the rank."""

import numpy as np

from fedsim.population.distributions.distribution import Distribution, Floats


class Zipf(Distribution):
    """largest rank^-exponent, the ranks 1, 2, ... from the top.

    Parameters
    ----------
    exponent
        How steep it falls.
    per_rank
        Consecutive clients that share a rank.
    largest
        The value of the first rank.
    count
        Clients in all.
    """

    ranked = True

    def __init__(self, exponent: float, per_rank: int, count: int, largest: float = 1.0) -> None:
        self.exponent, self.per_rank, self.count, self.largest = exponent, per_rank, count, largest

    def quantile(self, p: Floats) -> Floats:
        """That of the rank of which the part 1 - p of all lies above."""
        ranks = 1.0 + np.floor((1.0 - p) * self.count).astype(np.int64) // self.per_rank
        return np.asarray(self.largest * ranks**-self.exponent)
