"""Who is behind a device: what each draw of the habits is for, and what stays the same for a person from day to day."""

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from fedsim.availability.batch import Clients
from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.members import propensity
from fedsim.scenario.habits import Habits

LIMIT: Final = 3.0
"""No deviation from a habit is larger than this many standard deviations."""
ALL: Final = 1 << 30
"""A chance of 1: chances are whole numbers, which 30 random bits are compared with."""
TOP_UPS: Final = 4
"""Most short sessions on a charger in a day."""
_LINE = 64
_MOST_USES = 1 << 29


class Draw(IntEnum):
    """What a draw of the habits is for. The numbers are part of the format: a new purpose takes a new number.

    A draw of a day or slot has 64 bits, whose halves are used apart; of `NIGHT_LENGTH` and `BACK` only the upper one:

    ============  ===================================  ===========================================
    draw          upper half                           lower half
    ============  ===================================  ===========================================
    NIGHT         whether there is a night's session   when it begins
    TOP_UP        whether the 1st (3rd) takes place    whether the 2nd (4th) does
    TOP_UP_TIME   when it begins                       how long it lasts
    OUTING        whether there is an outing           when the person leaves home
    EVENT         whether a screen use begins          whether a failure of the network begins
    USE, FAILURE  when in its slot it begins           how long it lasts
    ============  ===================================  ===========================================
    """

    PROPENSITY = 1  # drawn in `population.members`
    NIGHT_TIME_OF_PERSON = 2
    NIGHT_LENGTH_OF_PERSON = 3
    NIGHT = 4
    NIGHT_LENGTH = 6
    TOP_UP = 7
    TOP_UP_TIME = 8
    HOME = 10
    WORK = 11
    LEAVE_OF_PERSON = 12
    BACK_OF_PERSON = 13
    OUTING = 14
    BACK = 16
    FAILURE = 18
    EVENT = 19
    USE = 20


def index(what: Draw, count: ArrayLike = 0, number: ArrayLike = 0) -> Ints:
    """Return the index of a draw: `count` of days or slots below 2**40, `number` below 2**8."""
    return (np.int64(what) << 48) | (np.asarray(count, dtype=np.int64) << 8) | np.asarray(number, dtype=np.int64)


def chance(mean: float, spread: float, score: Floats) -> Floats:
    """Return each person's chance of something that `mean` of all do.

    Phi(Phi^-1(mean) sqrt(1 + spread^2) + spread z): for a normal score z its expectation is `mean`, since it is the
    probability that a normal variable of variance 1 exceeds another of variance spread^2 by a constant.
    """
    return np.asarray(ndtr(ndtri(mean) * np.sqrt(1 + spread**2) + spread * score), dtype=np.float64)


def scaled_chance(chances: ArrayLike) -> Ints:
    """Return chances as whole numbers of which `ALL` is 1."""
    return np.rint(np.multiply(chances, ALL, dtype=np.float64)).astype(np.int64)


NIGHT, LATER, LONGER, TOP_UP, TOP_UP_WEEKEND, LEAVES, RETURNS, USES_AND_NETWORKS = range(COLUMNS := 8)
"""Columns of what belongs to a person, together half a cache line: chance of a night's session, how much later and
longer than usual it is; chances of a top-up; how much later they leave home and are back; in the last one the screen
uses a day, in units of 2**-15, times 4, plus where their networks are."""
AT_HOME, AT_WORK = 1, 2


class Persons:
    """The persons behind consecutive clients, known when they are asked about.

    Parameters
    ----------
    habits
        Their habits.
    first, count
        The first of the clients, and how many there are.
    draws
        The stream for availability.

    Attributes
    ----------
    columns
        (count, COLUMNS) what belongs to those who are `known`: times in milliseconds, chances as parts of `ALL`.
    """

    def __init__(self, habits: Habits, first: int, count: int, draws: Stream) -> None:
        self._habits, self._draws, self.first = habits, draws, first
        # Pages of these arrays that nobody has needed take no memory.
        self._known = np.zeros(count, dtype=np.bool_)
        self.columns = _lines(count)

    def know(self, clients: Clients) -> None:
        """Work out what belongs to the persons of some clients, as far as it is not known yet."""
        clients = clients[~self._known[clients - self.first]]
        if not len(clients):
            return
        rows = clients - self.first
        self._known[rows] = True
        draws, columns = self._draws, self.columns
        charging, network, idle = self._habits.charging, self._habits.network, self._habits.idle
        score = propensity(clients, draws)

        def deviation(what: Draw, standard_s: float) -> Floats:
            own = np.clip(draws.normals(clients, int(index(what))), -LIMIT, LIMIT)
            return np.rint(1000.0 * standard_s * own)

        night, top_up = charging.night, charging.top_up
        columns[rows, NIGHT] = scaled_chance(chance(night.chance, charging.spread, score))
        columns[rows, LATER] = deviation(Draw.NIGHT_TIME_OF_PERSON, night.between_persons)
        columns[rows, LONGER] = deviation(Draw.NIGHT_LENGTH_OF_PERSON, night.length_between_persons)
        for column, per_day in ((TOP_UP, top_up.per_day), (TOP_UP_WEEKEND, top_up.per_day_weekend)):
            columns[rows, column] = scaled_chance(chance(per_day / TOP_UPS, charging.spread, score))
        columns[rows, LEAVES] = deviation(Draw.LEAVE_OF_PERSON, network.between_persons)
        columns[rows, RETURNS] = deviation(Draw.BACK_OF_PERSON, network.between_persons)
        home, work = (
            draws.uniforms(clients, int(index(what))) < chance(share, network.spread, score)
            for what, share in ((Draw.HOME, network.home), (Draw.WORK, network.work))
        )
        uses = idle.uses_per_day * np.exp(-idle.spread * score - idle.spread**2 / 2)
        of_uses = np.minimum(np.rint(uses * (1 << 15)), _MOST_USES - 1).astype(np.int64)
        columns[rows, USES_AND_NETWORKS] = 4 * of_uses + AT_HOME * home + AT_WORK * work


def _lines(clients: int) -> NDArray[np.int32]:
    """Return zeros (clients, COLUMNS), none of whose rows lies in two cache lines."""
    size = clients * COLUMNS * 4
    memory = np.zeros(size + _LINE, dtype=np.uint8)
    skew = -memory.ctypes.data % _LINE
    return memory[skew : skew + size].view(np.int32).reshape(clients, COLUMNS)
