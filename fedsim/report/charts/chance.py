"""What chance alone does to frequencies: a fair lottery of as many participations, in which everyone is drawn alike."""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats, Ints

WITHIN = 0.95
"""Share of the cases that an envelope holds."""

_Z = 1.959963984540054


@dataclass(frozen=True)
class Envelope:
    """Where frequencies lie by chance alone, in multiples of uniform, in the bins of a chart.

    Parameters
    ----------
    low, high
        Of each bin.
    """

    low: Floats
    high: Floats


def around_uniform(taken: int, clients: int, sizes: Ints) -> Envelope:
    """Return where 95 % of the means of so many clients each lie, whatever clients those are.

    A client's count is binomial; the mean of several is taken to be normal, as a single count is not: it has the
    binomial's quantiles.
    """
    counts, reached = _binomial(taken, clients)
    mean = taken / clients
    beyond = (1 - WITHIN) / 2
    single = counts[np.searchsorted(reached, [beyond, 1 - beyond])] / mean
    half = _Z * np.sqrt((1 - 1 / clients) / (mean * np.maximum(sizes, 1)))
    low = np.where(sizes == 1, single[0], np.maximum(1 - half, 0.0))
    return Envelope(low, np.where(sizes == 1, single[1], 1 + half))


def in_order(taken: int, clients: int, ranks: Floats) -> Envelope:
    """Return where the frequency of each rank (1 for the most frequent) lies in 95 % of the lotteries.

    The counts of a lottery in descending order are the binomial's quantiles at the order statistics of uniform draws,
    whose intervals are taken to be those of Wilson (Journal of the American Statistical Association 22, 1927).
    """
    counts, reached = _binomial(taken, clients)
    p = 1 - (ranks - 0.5) / clients
    part = _Z**2 / clients
    middle = (p + part / 2) / (1 + part)
    half = _Z * np.sqrt(p * (1 - p) / clients + part / (4 * clients)) / (1 + part)
    ends = (
        counts[np.searchsorted(reached, np.clip(each, 0.0, reached[-1]))] for each in (middle - half, middle + half)
    )
    low, high = (each * clients / taken for each in ends)
    return Envelope(low, high)


def _binomial(taken: int, clients: int) -> tuple[Ints, Floats]:
    """Return the counts that a client can have in a fair lottery, and the probabilities of no more than each."""
    share = 1 / clients
    mean = taken * share
    far = 12 * np.sqrt(mean) + 40
    low, high = max(0, int(mean - far)), min(taken, int(mean + far))
    counts = np.arange(low, high + 1)
    more = np.log((taken - counts[:-1]) / (counts[:-1] + 1) * share / (1 - share)) if clients > 1 else np.zeros(0)
    logarithms = np.concatenate([[0.0], np.cumsum(more)])
    weights = np.exp(logarithms - logarithms.max())
    return counts, np.cumsum(weights) / weights.sum()
