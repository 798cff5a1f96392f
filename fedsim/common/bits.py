"""Sets of small numbers as bits (`Bits`), in compiled loops."""

import numpy as np

from fedsim.common.arrays import Bits, Ints
from fedsim.common.compiled import compiled, inlined

_1, _63 = np.uint64(1), np.uint64(63)
_LOWER_HALF = np.uint64(0xFFFFFFFF)


def words_for(size: int) -> int:
    """Return how many words hold the numbers below a size."""
    return (size + 63) // 64


@compiled
def has(bits: Bits, number: int) -> bool:
    """Say whether a number is in a set."""
    return bool((bits[number >> 6] >> (np.uint64(number) & _63)) & _1)


@compiled
def put(bits: Bits, number: int) -> None:
    """Put a number into a set."""
    bits[number >> 6] |= _1 << (np.uint64(number) & _63)


@compiled
def with_numbers(bits: Bits, numbers: Ints) -> Bits:
    """Return a set together with some more numbers."""
    both = bits.copy()
    for number in numbers:
        put(both, number)
    return both


@compiled
def places_in(bits: Bits, numbers: Ints) -> Ints:
    """Return the places of those numbers that are in a set."""
    places, kept = np.empty(len(numbers), np.int64), 0
    for place in range(len(numbers)):
        places[kept] = place
        kept += has(bits, numbers[place])
    return places[:kept]


@inlined
def transpose(square: Bits) -> None:
    """Turn 64 words into those whose word i holds the bits i of all: bit j of word i becomes bit i of word j.

    By halves, quarters and so on (H. S. Warren, *Hacker's Delight*, 2nd edition, 2013, section 7-3).
    """
    size, mask = 32, _LOWER_HALF
    while size:
        shift, row = np.uint64(size), 0
        while row < 64:
            change = ((square[row] >> shift) ^ square[row + size]) & mask
            square[row + size] ^= change
            square[row] ^= change << shift
            row = (row + size + 1) & ~size
        size >>= 1
        mask ^= mask << np.uint64(size)


@compiled
def transpose_all(words: Bits) -> Bits:
    """Return (64, m) rows of bits, of which row i holds the bits i of all 64 m words."""
    rows, square = np.empty((64, len(words) // 64), np.uint64), np.empty(64, np.uint64)
    for column in range(rows.shape[1]):
        square[:] = words[64 * column : 64 * (column + 1)]
        transpose(square)
        rows[:, column] = square
    return rows
