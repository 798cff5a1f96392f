"""The parameters that stay the same for a person from day to day, and what each draw of the habits is for."""

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.sources import propensity
from fedsim.scenario.habits import Habits

LIMIT: Final = 3.0
"""Deviations from a habit are cut at this many standard deviations."""
CERTAIN: Final = 1 << 30
"""A chance of 1: chances are whole numbers, to be compared with 30 random bits."""
TOP_UPS: Final = 4
"""Most short charging sessions in a day."""
_MOST_USES = 1 << 29


class Draw(IntEnum):
    """What a draw of the habits decides. The numbers are part of the format: a new purpose takes a new number.

    The halves of the 64 bits of a day's or slot's draw are used apart; `NIGHT_LENGTH` and `BACK` use the upper one:

    ============  ===================================  ===========================================
    draw          upper half                           lower half
    ============  ===================================  ===========================================
    NIGHT         whether there is a night session     when it begins
    TOP_UP        whether the 1st (3rd) takes place    whether the 2nd (4th) does
    TOP_UP_TIME   when it begins                       how long it lasts
    OUTING        whether there is an outing           when the person leaves home
    EVENT         whether a screen use begins          whether a failure of the network begins
    USE, FAILURE  when in its slot it begins           how long it lasts
    ============  ===================================  ===========================================
    """

    PROPENSITY = 1  # drawn in `population.sources`
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


def draw_index(what: Draw, count: ArrayLike = 0, number: ArrayLike = 0) -> Ints:
    """Return the index of a draw: `count` is a day or slot below 2**40, `number` is below 2**8."""
    return (np.int64(what) << 48) | (np.asarray(count, dtype=np.int64) << 8) | np.asarray(number, dtype=np.int64)


def individual_chance(mean: float, spread: float, score: Floats) -> Floats:
    """Return each person's chance of something that a share `mean` of all persons do.

    Phi(Phi^-1(mean) sqrt(1 + spread^2) + spread z): for a normal score z its expectation is `mean`, since it is the
    probability that a normal variable of variance 1 exceeds another of variance spread^2 by a constant.
    """
    return np.asarray(ndtr(ndtri(mean) * np.sqrt(1 + spread**2) + spread * score), dtype=np.float64)


def scaled_chance(chances: ArrayLike) -> Ints:
    """Return chances as whole numbers, 1 being `CERTAIN`."""
    return np.rint(np.multiply(chances, CERTAIN, dtype=np.float64)).astype(np.int64)


(
    NIGHT_CHANCE, NIGHT_LATER, NIGHT_LONGER, TOP_UP_CHANCE, TOP_UP_WEEKEND_CHANCE,
    LEAVES_LATER, RETURNS_LATER, USES_AND_NETWORKS, NIGHT_CHANCE_LATER,
) = range(_COLUMNS := 9)  # fmt: skip
"""Columns of `Persons.columns`: chances of a night session and of a top-up on working days and weekends; how much
later and longer than usual the night session is; how much later the person leaves home and is back; 4 * (screen uses a
day in units of 2**-15) + `HOME_NETWORK` + `WORK_NETWORK`, where they apply; the chance of a night after a drift."""
HOME_NETWORK, WORK_NETWORK = 1, 2


class Persons:
    """The parameters of the persons behind `count` consecutive clients, drawn and cached when they are first needed.

    `columns`, (count, columns as named above), has a row for each client from `first` on: milliseconds, and chances in
    units of `CERTAIN`; 0 before `rows_of` asks for it. `held_until` (count,) is `held` of `kernel.available_until`.
    """

    def __init__(self, habits: Habits, first: int, count: int, draws: Stream) -> None:
        self._habits, self._draws, self.first = habits, draws, first
        # Pages of these arrays that are never written take no memory.
        self._drawn = np.zeros(count, dtype=np.bool_)
        self.columns = np.zeros((count, _COLUMNS), dtype=np.int32)
        self.held_until = np.zeros(count, dtype=np.int64)

    def rows_of(self, clients: Ints) -> NDArray[np.int32]:
        """Return rows of `columns`, (n, columns), drawn where needed.

        Side by side they save the compiled loops a wait for memory at each client, a third of their time.
        """
        self._ensure_drawn(clients)
        return self.columns.take(clients - self.first, axis=0)

    def _ensure_drawn(self, clients: Ints) -> None:
        """Compute and cache the parameters of those clients that have none yet."""
        clients = clients[~self._drawn[clients - self.first]]
        if not len(clients):
            return
        rows = clients - self.first
        self._drawn[rows] = True
        draws, columns = self._draws, self.columns
        charging, network, idle = self._habits.charging, self._habits.network, self._habits.idle
        score = propensity(clients, draws)

        def deviation(what: Draw, standard_s: float) -> Floats:
            scores = np.clip(draws.normals(clients, int(draw_index(what))), -LIMIT, LIMIT)
            return np.rint(1000.0 * standard_s * scores)

        night, top_up = charging.night, charging.top_up
        columns[rows, NIGHT_CHANCE] = scaled_chance(individual_chance(night.chance, charging.spread, score))
        drift = self._habits.drift
        later = night.chance if drift is None or drift.night_chance is None else drift.night_chance
        columns[rows, NIGHT_CHANCE_LATER] = scaled_chance(individual_chance(later, charging.spread, score))
        columns[rows, NIGHT_LATER] = deviation(Draw.NIGHT_TIME_OF_PERSON, night.between_persons)
        columns[rows, NIGHT_LONGER] = deviation(Draw.NIGHT_LENGTH_OF_PERSON, night.length_between_persons)
        for column, per_day in ((TOP_UP_CHANCE, top_up.per_day), (TOP_UP_WEEKEND_CHANCE, top_up.per_day_weekend)):
            columns[rows, column] = scaled_chance(individual_chance(per_day / TOP_UPS, charging.spread, score))
        columns[rows, LEAVES_LATER] = deviation(Draw.LEAVE_OF_PERSON, network.between_persons)
        columns[rows, RETURNS_LATER] = deviation(Draw.BACK_OF_PERSON, network.between_persons)
        home, work = (
            draws.uniforms(clients, int(draw_index(what))) < individual_chance(share, network.spread, score)
            for what, share in ((Draw.HOME, network.home), (Draw.WORK, network.work))
        )
        uses = idle.uses_per_day * np.exp(-idle.spread * score - idle.spread**2 / 2)
        of_uses = np.minimum(np.rint(uses * (1 << 15)), _MOST_USES - 1).astype(np.int64)
        columns[rows, USES_AND_NETWORKS] = 4 * of_uses + HOME_NETWORK * home + WORK_NETWORK * work
