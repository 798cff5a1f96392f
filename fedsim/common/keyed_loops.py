"""Keyed draws inside compiled loops: what `fedsim.common.keyed` draws as arrays, one at a time, to the last bit."""

import numpy as np

from fedsim.common.compiled import inlined
from fedsim.common.keyed import FIRST_FACTOR, GOLDEN, SECOND_FACTOR, TWO_TO_MINUS_53

_11, _27, _30, _31 = (np.uint64(bits) for bits in (11, 27, 30, 31))


@inlined
def mixed(word: np.uint64) -> np.uint64:
    """Return a word whose bits all depend on all bits of the given one."""
    word = (word ^ (word >> _30)) * FIRST_FACTOR
    word = (word ^ (word >> _27)) * SECOND_FACTOR
    return word ^ (word >> _31)


@inlined
def word_of(client: int, key: np.uint64) -> np.uint64:
    """Return a client's part of the key, as `Stream.of_clients`."""
    return mixed(np.uint64(client) * GOLDEN + key)


@inlined
def uniform_at(word: np.uint64) -> float:
    """Return the draw in (0, 1) at the exclusive or of a client's and an index's part of the key."""
    return (np.float64(mixed(word) >> _11) + 0.5) * TWO_TO_MINUS_53
