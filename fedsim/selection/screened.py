"""Compiled loops that pass over units known to be ineligible; the draws are those of `proposals`."""

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.bits import has
from fedsim.common.compiled import compiled, mixed, uniform_at
from fedsim.common.keyed import GOLDEN

_LARGEST_GUIDE = 1 << 22


def guide_to(cumulative: Floats) -> NDArray[np.int32]:
    """Return how many of a running sum (n,) up to 1 are at most k / K, for k = 0, ..., K: where a search may begin."""
    places = 1 << min(max(len(cumulative) - 1, 1).bit_length(), _LARGEST_GUIDE.bit_length() - 1)
    return np.searchsorted(cumulative, np.arange(places + 1) / places, side="right").astype(np.int32)


@compiled
def _draws(word: np.uint64, first: int, count: int) -> Floats:
    draws = np.empty(count)
    for place in range(count):  # in a loop of its own this takes half of the time
        draws[place] = uniform_at(word ^ mixed(np.uint64(first + place) + GOLDEN))
    return draws


@compiled
def proposed_evenly(word: np.uint64, first: int, count: int, units: int, possible: Bits) -> Ints:
    """Return the proposals `first` to `first + count - 1` that may be eligible, where all units weigh the same.

    `word` is the round's part of the key.
    """
    proposals, kept = np.empty(count, np.int64), 0
    for draw in _draws(word, first, count):
        unit = min(int(draw * units), units - 1)
        proposals[kept] = unit
        kept += has(possible, unit)
    return proposals[:kept]


@compiled
def proposed_by_weight(
    word: np.uint64, first: int, count: int, cumulative: Floats, guide: NDArray[np.int32], possible: Bits
) -> Ints:
    """Return the same where units have weights, by their running sum up to 1, and its guide."""
    proposals, kept, places, last = np.empty(count, np.int64), 0, len(guide) - 1, len(cumulative) - 1
    for draw in _draws(word, first, count):
        place = int(draw * places)
        low, high = guide[place], guide[place + 1]
        while low < high:
            middle = (low + high) >> 1
            if cumulative[middle] <= draw:
                low = middle + 1
            else:
                high = middle
        unit = min(low, last)
        proposals[kept] = unit
        kept += has(possible, unit)
    return proposals[:kept]
