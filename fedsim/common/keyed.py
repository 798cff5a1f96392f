"""Keyed randomness: every draw is a pure function of (seed, replicate, purpose, client, index).

Nothing here has state. Two runs that differ in one setting therefore see the same devices plugging in at the same
instants (common random numbers), a draw can be made for any client at any time without making those before it, and
a run can be resumed at any round.

The key is absorbed word by word through the finaliser of SplitMix64 (Steele, Lea and Flood, *Fast splittable
pseudorandom number generators*, OOPSLA 2014), a bijection of the 64-bit integers with full avalanche. Indices are
mixed on their own before they meet the client's word, so that no two clients walk along the same orbit.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Floats
from fedsim.common.later import special

GOLDEN, FIRST_FACTOR, SECOND_FACTOR = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def _operand(value: int | np.uint64) -> NDArray[np.uint64]:
    """Return an array without axes: beside a short array numpy takes it in a third of the time of a scalar."""
    operand = np.array(value, dtype=np.uint64)
    operand.flags.writeable = False
    return operand


_GOLDEN_OPERAND, _FIRST_OPERAND, _SECOND_OPERAND = (
    _operand(factor) for factor in (GOLDEN, FIRST_FACTOR, SECOND_FACTOR)
)
_BY_30, _BY_27, _BY_31, _BY_11 = (_operand(bits) for bits in (30, 27, 31, 11))
TWO_TO_MINUS_53 = 2.0**-53
_WORD = 0xFFFFFFFFFFFFFFFF


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of the format: a new purpose takes a new number."""

    WEIGHT = 1
    SEPARATION = 2
    COOLDOWN = 3
    AVAILABILITY = 4
    SESSION = 5
    SELECTION = 6
    LEADER = 7
    PROBLEM = 8
    OPTIMIZER = 9
    CHAIN = 10
    SELECTION_RACE = 11
    LEADER_RACE = 12
    SPEED = 13
    TIME_ZONE = 14
    REFERENCE = 15
    OWN_SELECTION = 16
    PARTICIPATIONS = 17
    NOISE = 18
    SHOCK = 20
    SHOCK_HIT = 21
    SHOCK_RECOVERY = 22
    DEVICE = 23
    SAMPLES = 24
    UNMASKING = 25
    JOINS = 26
    LEAVES = 27
    CHECK_IN = 28
    MATCHING = 29
    LOCAL_STEPS = 30


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # In place but for the first step: two arrays instead of eight.
    shifted = word >> _BY_30
    word = word ^ shifted
    word *= _FIRST_OPERAND
    word ^= np.right_shift(word, _BY_27, shifted)
    word *= _SECOND_OPERAND
    word ^= np.right_shift(word, _BY_31, shifted)
    return word


def _words(values: ArrayLike) -> NDArray[np.uint64]:
    if isinstance(values, np.ndarray) and values.ndim and values.dtype == np.int64:
        return values.view(np.uint64)
    # At least one axis: numpy warns when a scalar wraps around, and is silent for arrays.
    return np.atleast_1d(np.asarray(values)).astype(np.uint64)


def mixed_index(index: ArrayLike) -> NDArray[np.uint64]:
    """Return the index's part of the key."""
    return _mix(_words(index) + _GOLDEN_OPERAND)


def to_uniforms(key: NDArray[np.uint64]) -> Floats:
    """Return the draws in (0, 1) at keys, each the exclusive or of a client's and an index's part."""
    draws: Floats = (_mix(key) >> _BY_11).astype(np.float64)
    draws += 0.5
    draws *= TWO_TO_MINUS_53
    return draws


@dataclass(frozen=True, slots=True)
class Stream:
    """All the draws of one (seed, replicate, purpose), addressed by client and index.

    Every method broadcasts `client` against `index` (non-negative integers below 2**63) and returns an array of the
    broadcast shape, with at least one axis.
    """

    key: int

    def bits(self, client: ArrayLike, index: ArrayLike) -> NDArray[np.uint64]:
        """64 random bits for each (client, index)."""
        return _mix(self.of_clients(client) ^ mixed_index(index))

    def of_clients(self, client: ArrayLike) -> NDArray[np.uint64]:
        """Return the client's part of the key; `to_uniforms` takes it combined with that of the index."""
        return _mix(_words(client) * _GOLDEN_OPERAND + np.uint64(self.key))

    def uniforms(self, client: ArrayLike, index: ArrayLike) -> Floats:
        """Uniform on the open interval (0, 1): multiples of 2**-53 shifted by half a step, so never 0 and never 1."""
        return to_uniforms(self.of_clients(client) ^ mixed_index(index))

    def exponentials(self, client: ArrayLike, index: ArrayLike) -> Floats:
        """Exponential with mean 1, by inversion."""
        return -np.log(self.uniforms(client, index))

    def normals(self, client: ArrayLike, index: ArrayLike) -> Floats:
        """Standard normal, by inversion."""
        return np.asarray(special.ndtri(self.uniforms(client, index)), dtype=np.float64)


@lru_cache(maxsize=1024)  # planning a sweep asks for all of them for each point: a fifth of its time
def stream(seed: int, replicate: int, purpose: Purpose) -> Stream:
    """Return the stream of draws for one purpose of one replicate of one seed, both from 0 to 2**64 - 1."""
    key = _words([GOLDEN])
    for word in (seed, replicate, int(purpose)):
        key = _mix((key ^ np.uint64(word & _WORD)) + GOLDEN)
    return Stream(int(key[0]))
