"""Proposals, and the race, of units some of which are barred: these are passed over in compiled loops.

The draws are those of `proposals`, to the last bit: what is barred there is asked about, and found not to be eligible.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.bits import has
from fedsim.common.compiled import compiled
from fedsim.common.keyed import FIRST_FACTOR, GOLDEN, SECOND_FACTOR, TWO_TO_MINUS_53

_11, _27, _30, _31 = (np.uint64(bits) for bits in (11, 27, 30, 31))
_NOBODY_LEFT = ~np.uint64(0)  # a word in which everyone is barred
_LARGEST_GUIDE = 1 << 22
_SLACK = 1e-9  # relative, more than the bound of a time is ever rounded by


def guide_to(cumulative: Floats) -> NDArray[np.int32]:
    """Return how many of a running sum (n,) up to 1 are at most k / K, for k = 0, ..., K: where a search may begin."""
    places = 1 << min(max(len(cumulative) - 1, 1).bit_length(), _LARGEST_GUIDE.bit_length() - 1)
    return np.searchsorted(cumulative, np.arange(places + 1) / places, side="right").astype(np.int32)


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _30)) * FIRST_FACTOR
    word = (word ^ (word >> _27)) * SECOND_FACTOR
    return word ^ (word >> _31)


@compiled
def _uniform(word: np.uint64) -> float:
    return (np.float64(_mixed(word) >> _11) + 0.5) * TWO_TO_MINUS_53


@compiled
def proposed_evenly(word: np.uint64, first: int, count: int, units: int, barred: Bits) -> Ints:
    """Return those of the proposals `first` to `first + count - 1` that are not barred, where all units weigh the same.

    `word` is the round's part of the key.
    """
    found, kept = np.empty(count, np.int64), 0
    for number in range(first, first + count):
        unit = min(int(_uniform(word ^ _mixed(np.uint64(number) + GOLDEN)) * units), units - 1)
        found[kept] = unit
        kept += not has(barred, unit)
    return found[:kept]


@compiled
def proposed_by_weight(
    word: np.uint64, first: int, count: int, cumulative: Floats, guide: NDArray[np.int32], barred: Bits
) -> Ints:
    """Return the same where units have weights, by their running sum up to 1, and its guide."""
    found, kept, places, last = np.empty(count, np.int64), 0, len(guide) - 1, len(cumulative) - 1
    for number in range(first, first + count):
        draw = _uniform(word ^ _mixed(np.uint64(number) + GOLDEN))
        place = int(draw * places)
        low, high = guide[place], guide[place + 1]
        while low < high:
            middle = (low + high) >> 1
            if cumulative[middle] <= draw:
                low = middle + 1
            else:
                high = middle
        unit = min(low, last)
        found[kept] = unit
        kept += not has(barred, unit)
    return found[:kept]


@compiled
def in_time(key: np.uint64, index: np.uint64, rates: Floats, limit: float, units: int, barred: Bits) -> Ints:
    """Return the units, in ascending order, that are not barred and may come in before a limit, and some more.

    Parameters
    ----------
    key, index
        Of the stream, and the round's part of the key.
    rates
        (units,) how fast they are; none where all have rate 1.
    limit
        A unit comes in at -log(u) / rate for its draw u; 1 - u is never more than -log(u).
    units, barred
        How many there are, and who takes no part.
    """
    found, kept, even = np.empty(1024, np.int64), 0, len(rates) == 0
    most = limit * (1.0 + _SLACK)
    for word in range(len(barred)):
        if barred[word] == _NOBODY_LEFT:
            continue
        for unit in range(64 * word, min(64 * (word + 1), units)):
            if has(barred, unit):
                continue
            draw = _uniform(_mixed(np.uint64(unit) * GOLDEN + key) ^ index)
            if 1.0 - draw <= most * (1.0 if even else rates[unit]):
                if kept == len(found):
                    longer = np.empty(2 * kept, np.int64)
                    longer[:kept] = found
                    found = longer
                found[kept] = unit
                kept += 1
    return found[:kept]
