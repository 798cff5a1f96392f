"""Bounds of the times of one local day: tables in which a draw is looked up instead of being turned into a time.

The draws are those of `charging` and `network`. A table (bins, 3) has a line over each bin of the unit interval, and
how far what belongs to a draw may be off it.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.charging import NIGHT_AT_MOST, TOP_UP_AT_MOST, TOP_UPS, evening, weekends
from fedsim.availability.habits.draws import keys
from fedsim.availability.habits.persons import LIMIT, TOP_UP, TOP_UP_WEEKEND, Draw
from fedsim.common.arrays import Floats
from fedsim.common.compiled import compiled
from fedsim.population.distributions import Constant, Distribution, distribution
from fedsim.population.distributions.lengths import Exponential, Lognormal
from fedsim.scenario.habits import Habits

MARGIN = 1e-3
"""Seconds, far more than times are ever rounded by."""
LARGEST_CHANGE = 2 * 3600.0
"""Changes of the clocks by more than this leave nothing to say."""
_NEAR = 3 * DAY  # changes of the clocks so near to a day matter to it
BINS = 4096
_STEPS = 64
_EDGES = np.arange(BINS * _STEPS + 1) / (BINS * _STEPS)
_ROUNDED = 1e-9


class DayBounds(NamedTuple):
    """One local day: keys of its draws, and what its times are made of, in seconds of the clock after midnight.

    `night_start` and `night_length` are the usual ones, with their deviations from day to day; `night_spans` is what no
    night's session exceeds. `top_up_chance` is the column of the persons, `top_ups_end` when all are over. There are
    tables of `top_up_starts` and `top_up_lengths`, and of deviations, `scores`. `outing_times` are leaving and being
    back, with their deviation, and `at_work` says whether anybody works.
    """

    night: NDArray[np.uint64]
    night_start: tuple[float, float]
    night_length: tuple[float, float]
    night_spans: tuple[float, float]
    top_up: NDArray[np.uint64]
    top_up_chance: int
    top_up_starts: Floats
    top_up_lengths: Floats
    top_ups_end: float
    outing: NDArray[np.uint64]
    outing_chance: float
    outing_times: tuple[float, float, float]
    commute: float
    at_work: bool
    scores: Floats
    slack: float


class BoundsOfDays:
    """The bounds of the local days around the present one, of some habits in one place."""

    def __init__(self, habits: Habits) -> None:
        self._habits = habits
        self._known: dict[int, DayBounds | None] = {}

    def of(self, day: int, clock: Civil) -> DayBounds | None:
        """Return the bounds of a day, an ordinal; None where clocks are changed by so much that they are of no use."""
        if day not in self._known:
            slack = _slack(day, clock)
            self._known = {each: kept for each, kept in self._known.items() if abs(day - each) <= 1}
            self._known[day] = None if slack is None else day_bounds(self._habits, day, slack)
        return self._known[day]


def _slack(day: int, clock: Civil) -> float | None:
    """Return how far clock times near a day may be wrong; None where that is too much to be of use."""
    midnight = float(clock.instant(clock.midnight(np.array([day])))[0])
    near = slice(*clock.changes.searchsorted((midnight - _NEAR, midnight + _NEAR)))
    offsets = clock.offsets[near.start : near.stop + 1]
    changed = float(offsets.max() - offsets.min())
    return None if changed > LARGEST_CHANGE else MARGIN + changed


def day_bounds(habits: Habits, day: int, slack: float) -> DayBounds:
    """Return the bounds of a local day, given by its ordinal, whose times may be wrong by some seconds."""
    charging, network = habits.charging, habits.network
    night, top_up = charging.night, charging.top_up
    ordinal = np.array([day])
    weekend, free = bool(weekends(ordinal)[0]), bool(weekends(ordinal + 1)[0])
    outing = network.weekend if weekend else network.weekday
    usual = evening(night.plug_in_weekend if free else night.plug_in)
    off = LIMIT * (night.between_persons + night.between_days)
    return DayBounds(
        np.concatenate([keys(what, day) for what in (Draw.NIGHT, Draw.NIGHT_TIME, Draw.NIGHT_LENGTH)]),
        (usual, night.between_days),
        (night.length_weekend if free else night.length, night.length_between_days),
        (usual - off - slack, usual + off + NIGHT_AT_MOST + slack),
        np.array([keys(what, day, TOP_UPS) for what in (Draw.TOP_UP, Draw.TOP_UP_TIME, Draw.TOP_UP_LENGTH)]),
        TOP_UP_WEEKEND if weekend else TOP_UP,
        _top_up_starts(tuple(top_up.by_hour)),
        lengths_by_draw(distribution(top_up.length), TOP_UP_AT_MOST),
        DAY + TOP_UP_AT_MOST + slack,
        np.concatenate([keys(what, day) for what in (Draw.OUTING, Draw.LEAVE, Draw.BACK)]),
        outing.chance,
        (outing.leave, outing.back, network.between_days),
        network.commute,
        not weekend,
        _scores(),
        slack,
    )


@lru_cache(maxsize=1)
def _scores() -> Floats:
    """Return the line through the deviations that belong to the uniform draws of each bin."""
    return lines(np.clip(ndtri(_EDGES), -LIMIT, LIMIT))


@lru_cache(maxsize=16)
def _top_up_starts(by_hour: tuple[float, ...]) -> Floats:
    """Return the line through the starts."""
    until_hour = np.concatenate([[0.0], np.cumsum(by_hour)]) / sum(by_hour)
    return lines(np.interp(_EDGES, until_hour, np.arange(25) * 3600.0))


@lru_cache(maxsize=64)
def lengths_by_draw(law: Distribution, longest: float) -> Floats:
    """Return the line through the lengths that a law makes of uniform draws, cut at `longest`.

    Of a law that is not known to rise, or to fall, with the draw, everything is possible.
    """
    if not isinstance(law, Constant | Exponential | Lognormal):
        return np.tile((longest / 2, 0.0, longest / 2), (BINS, 1))
    return lines(np.minimum(law.draw(np.clip(_EDGES, 2.0**-54, 1.0 - 2.0**-53)), longest))


def lines(values: Floats) -> Floats:
    """Return of each bin (bins, 3) the value where it begins, the slope over it, and how far the line may be off.

    `values` (bins * steps + 1,) are those at steps of a bin, of a function that rises, or falls, over each step.
    """
    first, last = values[:-1:_STEPS], values[_STEPS::_STEPS]
    at = np.arange(_STEPS + 1) / _STEPS
    line = first[:, None] + (last - first)[:, None] * at
    own = np.lib.stride_tricks.sliding_window_view(values, _STEPS + 1)[::_STEPS]
    off = np.maximum(np.abs(line[:, :-1] - own[:, 1:]), np.abs(line[:, 1:] - own[:, :-1])).max(axis=1)
    off = np.maximum(off, np.maximum(np.abs(line[:, :-1] - own[:, :-1]), np.abs(line[:, 1:] - own[:, 1:])).max(axis=1))
    return np.column_stack([first, last - first, off + _ROUNDED])


@compiled
def bounded(table: Floats, draw: float) -> tuple[float, float]:
    """Return the least and the most that belongs to a uniform draw."""
    scaled = draw * BINS
    place = int(scaled)
    middle, off = table[place, 0] + table[place, 1] * (scaled - place), table[place, 2]
    return middle - off, middle + off
