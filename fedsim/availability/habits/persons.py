"""Who is behind a device: the draws that belong to a person, and the keys of those that belong to a day.

Every draw of the habits is one of the stream for availability, at an index made of what it is for, a day or another
count of time, and a number. Indices of renewal processes stay below all of these. The score that says how available a
person makes the device is drawn in `population.members`, at the index of `Draw.PROPENSITY`.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream

LIMIT = 3.0  # no deviation from a habit is larger than this many standard deviations


class Draw(IntEnum):
    """What a draw of the habits is for. The numbers are part of the format: a new purpose takes a new number."""

    PROPENSITY = 1
    NIGHT_TIME_OF_PERSON = 2
    NIGHT_LENGTH_OF_PERSON = 3
    NIGHT = 4
    NIGHT_TIME = 5
    NIGHT_LENGTH = 6
    TOP_UP = 7
    TOP_UP_TIME = 8
    TOP_UP_LENGTH = 9
    HOME = 10
    WORK = 11
    LEAVE_OF_PERSON = 12
    BACK_OF_PERSON = 13
    OUTING = 14
    LEAVE = 15
    BACK = 16
    DROP_OUT = 17
    DROP_OUT_LENGTH = 18
    USE = 19
    USE_LENGTH = 20


def index(what: Draw, count: ArrayLike = 0, number: ArrayLike = 0) -> Ints:
    """Return the index of a draw: `count` of days or slots below 2**40, `number` below 2**8."""
    return (np.int64(what) << 48) | (np.asarray(count, dtype=np.int64) << 8) | np.asarray(number, dtype=np.int64)


def deviation(what: Draw, clients: Ints, count: ArrayLike, draws: Stream) -> Floats:
    """Return standard normal scores, those beyond three standard deviations put there."""
    return np.clip(draws.normals(clients, index(what, count)), -LIMIT, LIMIT)


def chance(mean: float, spread: float, score: Floats) -> Floats:
    """Return each person's chance of something that `mean` of all do.

    Phi(Phi^-1(mean) sqrt(1 + spread^2) + spread z): for a normal score z its expectation is `mean`, since it is the
    probability that a normal variable of variance 1 exceeds another of variance spread^2 by a constant.
    """
    return np.asarray(ndtr(ndtri(mean) * np.sqrt(1 + spread**2) + spread * score), dtype=np.float64)


NIGHT, LATER, LONGER, TOP_UP, TOP_UP_WEEKEND, LEAVES, RETURNS, NETWORKS = range(COLUMNS := 8)
"""Columns of what belongs to a person, together a cache line: chance of a night's session, how much later and longer
than usual it is; chances of a top-up; how much later they leave home and are back; where their networks are."""
AT_HOME, AT_WORK = 1, 2  # added up in the last column
