"""Compiled loops of proposals and races that pass over ineligible units; the draws are those of `proposals`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.bits import first_of, has
from fedsim.common.compiled import compiled, mixed, uniform_at
from fedsim.common.keyed import GOLDEN

_1 = np.uint64(1)
_PER_OCTAVE = 4
_WORDS = 16  # that are looked at together
_TOGETHER = 64  # proposals whose places are looked up together
_LARGEST_GUIDE = 1 << 22
_SLACK = 1e-9  # relative, more than the bound of a time is ever rounded by


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
def proposed_evenly(word: np.uint64, first: int, count: int, units: int, ineligible: Bits) -> Ints:
    """Return the proposals `first` to `first + count - 1` that may be eligible, where all units weigh the same.

    `word` is the round's part of the key.
    """
    found, kept = np.empty(count, np.int64), 0
    for draw in _draws(word, first, count):
        unit = min(int(draw * units), units - 1)
        found[kept] = unit
        kept += not has(ineligible, unit)
    return found[:kept]


@compiled
def proposed_by_weight(
    word: np.uint64, first: int, count: int, cumulative: Floats, guide: NDArray[np.int32], ineligible: Bits
) -> Ints:
    """Return the same where units have weights, by their running sum up to 1, and its guide."""
    found, kept, places, last = np.empty(count, np.int64), 0, len(guide) - 1, len(cumulative) - 1
    draws = _draws(word, first, count)
    lows, highs, middles = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER)
    for begin in range(0, count, _TOGETHER):
        some = min(_TOGETHER, count - begin)
        for each in range(some):  # all rows are loaded in one loop so that cache misses overlap
            place = int(draws[begin + each] * places)
            lows[each], highs[each] = guide[place], guide[place + 1]
        for each in range(some):
            middles[each] = cumulative[min((lows[each] + highs[each]) >> 1, last)]
        for each in range(some):
            draw, low, high = draws[begin + each], lows[each], highs[each]
            if low < high:
                middle = (low + high) >> 1
                if middles[each] <= draw:
                    low = middle + 1
                else:
                    high = middle
            while low < high:
                middle = (low + high) >> 1
                if cumulative[middle] <= draw:
                    low = middle + 1
                else:
                    high = middle
            unit = min(low, last)
            found[kept] = unit
            kept += not has(ineligible, unit)
    return found[:kept]


class Classes(NamedTuple):
    """Units by their rates, in a byte each, so that a race reads little: class (units,), the most in each (256,)."""

    of_unit: NDArray[np.uint8]
    most: Floats


def classes_of(rates: Floats) -> Classes:
    """Return classes of a quarter of an octave, the fastest 256; slower units are in the last with those just above."""
    largest = float(rates.max())
    with np.errstate(divide="ignore"):
        down = np.minimum(-_PER_OCTAVE * np.log2(rates / largest), 255.0).astype(np.uint8)
    return Classes(down, largest * 2.0 ** (-np.arange(256) / _PER_OCTAVE) * (1.0 + _SLACK))


@compiled
def in_time(key: np.uint64, index: np.uint64, classes: Classes, limit: float, ineligible: Bits) -> Ints:
    """Return the units, in ascending order, that are not ineligible and may come in before a limit, and some more.

    A unit comes in at -log(u) / rate for its draw u; 1 - u is never more than -log(u). `key` and `index` are those of
    the stream and of the round.
    """
    kept, units, found = 0, len(classes.of_unit), np.empty(64 * _WORDS, np.int64)
    most = classes.most * limit
    some, lots = np.empty(64 * _WORDS, np.int64), np.empty(64 * _WORDS)
    for first in range(0, len(ineligible), _WORDS):
        taking_part = 0
        for word in range(first, min(first + _WORDS, len(ineligible))):
            left = ~ineligible[word]
            while left:
                some[taking_part] = 64 * word + first_of(left)
                left &= left - _1
                taking_part += 1
        while taking_part and some[taking_part - 1] >= units:
            taking_part -= 1
        for each in range(taking_part):  # in a loop of its own this takes half of the time
            lots[each] = 1.0 - uniform_at(mixed(np.uint64(some[each]) * GOLDEN + key) ^ index)
        if kept + taking_part > len(found):
            found = np.concatenate((found, np.empty(len(found) + len(some), np.int64)))
        for each in range(taking_part):
            found[kept] = some[each]
            kept += lots[each] <= most[classes.of_unit[some[each]]]
    return found[:kept]
