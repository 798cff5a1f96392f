"""Bounds of the times of one local day: tables in which a draw is looked up instead of being turned into a time.

The draws are those of `charging` and `network`. Bin k of a table bounds what belongs to uniform draws in
[k / BINS, (k + 1) / BINS).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.habits.charging import TOP_UP_AT_MOST, TOP_UPS, evening, weekends
from fedsim.availability.habits.draws import keys
from fedsim.availability.habits.persons import LIMIT, Draw
from fedsim.availability.habits.plugged import TOP_UP, TOP_UP_WEEKEND
from fedsim.common.arrays import Floats
from fedsim.population.distributions import Constant, Distribution, distribution
from fedsim.population.distributions.lengths import Exponential, Lognormal
from fedsim.scenario.habits import Habits

BINS = 1024


class DayBounds(NamedTuple):
    """One local day: keys of its draws, and what its times are made of, in seconds of the clock after midnight.

    `night` and `night_length` are the usual start and length, with their deviations in one day; `top_up_chance` is the
    column of the persons. `top_up_times` (bins, 3) bound starts from both sides, and lengths; `scores` (bins, 2) bound
    deviations. `outing_times` are leaving and being back, with their deviation, and `at_work` whether anybody works.
    """

    night: NDArray[np.uint64]
    night_start: tuple[float, float]
    night_length: tuple[float, float]
    top_up: NDArray[np.uint64]
    top_up_chance: int
    top_up_times: Floats
    outing: NDArray[np.uint64]
    outing_chance: float
    outing_times: tuple[float, float, float]
    at_work: bool
    scores: Floats
    slack: float


def day_bounds(habits: Habits, day: int, slack: float) -> DayBounds:
    """Return the bounds of a local day, given by its ordinal, whose times may be wrong by some seconds."""
    charging, network = habits.charging, habits.network
    night, top_up = charging.night, charging.top_up
    ordinal = np.array([day])
    weekend, free = bool(weekends(ordinal)[0]), bool(weekends(ordinal + 1)[0])
    outing = network.weekend if weekend else network.weekday
    return DayBounds(
        np.concatenate([keys(what, day) for what in (Draw.NIGHT, Draw.NIGHT_TIME, Draw.NIGHT_LENGTH)]),
        (evening(night.plug_in_weekend if free else night.plug_in), night.between_days),
        (night.length_weekend if free else night.length, night.length_between_days),
        np.array([keys(what, day, TOP_UPS) for what in (Draw.TOP_UP, Draw.TOP_UP_TIME, Draw.TOP_UP_LENGTH)]),
        TOP_UP_WEEKEND if weekend else TOP_UP,
        _top_up_times(tuple(top_up.by_hour), distribution(top_up.length)),
        np.concatenate([keys(what, day) for what in (Draw.OUTING, Draw.LEAVE, Draw.BACK)]),
        outing.chance,
        (outing.leave, outing.back, network.between_days),
        not weekend,
        _scores(),
        slack,
    )


@lru_cache(maxsize=1)
def _scores() -> Floats:
    """Return bounds (bins, 2) of the deviations that belong to the uniform draws of each bin."""
    edges = np.clip(ndtri(np.arange(BINS + 1) / BINS), -LIMIT, LIMIT)
    return np.column_stack([edges[:-1], edges[1:]])


@lru_cache(maxsize=16)
def _top_up_times(by_hour: tuple[float, ...], length: Distribution) -> Floats:
    """Return bounds (bins, 3): least and most of the start, and most of the length."""
    edges = np.arange(BINS + 1) / BINS
    starts = np.interp(edges, np.concatenate([[0.0], np.cumsum(by_hour)]) / sum(by_hour), np.arange(25) * 3600.0)
    lengths = np.full(BINS + 1, TOP_UP_AT_MOST)
    if isinstance(length, Constant | Exponential | Lognormal):  # which rise or fall with the draw
        lengths = np.minimum(length.draw(np.clip(edges, 2.0**-54, 1.0 - 2.0**-53)), TOP_UP_AT_MOST)
    return np.column_stack([starts[:-1], starts[1:], np.maximum(lengths[:-1], lengths[1:])])
