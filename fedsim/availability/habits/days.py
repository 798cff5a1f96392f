"""Some consecutive local days, and the five-minute slots around an instant, as numbers for the compiled loops."""

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.civil import Civil
from fedsim.availability.habits.laws import SIZE, Tables, tabulated
from fedsim.availability.habits.persons import (
    LIMIT,
    TOP_UP,
    TOP_UP_WEEKEND,
    TOP_UPS,
    Draw,
    Persons,
    index,
    scaled_chance,
)
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import DAY, HOUR, to_ms
from fedsim.common.keyed import mixed_index
from fedsim.population.distributions import distribution
from fedsim.scenario.habits import Habits

NIGHT_AT_MOST: Final = 16 * HOUR
TOP_UP_AT_MOST_S, SHORT_AT_MOST_S = 8 * 3600.0, 3600.0
SLOT: Final = 300_000
_PER_DAY = DAY // SLOT
_SLOTS = 4096  # that are worked out together
NIGHT_TIME, NIGHT_LENGTH, OUTING_TIME, TOP_UP_TIME, TOP_UP_LENGTH, USE_LENGTH, FAILURE_LENGTH = (
    SIZE * law for law in range(7)
)
"""Where the table of each law begins."""
(
    NIGHT_FROM, NIGHT_TO, PLUG_IN, LASTS, TOP_UP_FROM, TOP_UP_TO, MIDNIGHT, TOP_UP_COLUMN,
    OUT_FROM, OUT_TO, OUT_CHANCE, LEAVE, BACK, AT_WORK,
) = range(_FACTS := 14)  # fmt: skip
"""Columns of a day. Instants between which its night's session, its top-ups and the day itself lie; the clock times of
its usual `PLUG_IN` and its `MIDNIGHT`; clock times after midnight of the usual `LEAVE` and `BACK`. How long a night's
session usually `LASTS`, the persons' column with the chance of a top-up, that of an outing, whether anybody works."""
NIGHT_KEY, LENGTH_KEY, OUTING_KEY, BACK_KEY, TOP_UP_KEY = range(5)
TOP_UP_TIME_KEY: Final = TOP_UP_KEY + TOP_UPS // 2
"""Columns of the keys of a day's draws; top-ups have several."""
EVENT_KEY, USE_KEY, FAILURE_KEY = range(3)
"""Columns of the keys of a slot's draws."""


class Known(NamedTuple):
    """What the compiled loops know, of some consecutive local days and slots of five minutes of UTC.

    Attributes
    ----------
    key
        Of the stream for availability.
    first, persons
        The first of the clients whose persons are known, and their (clients, columns) as named in `persons`.
    tables
        The laws, see `laws`.
    commute, settle
        Time from home to work and back, each; how long after a use of the screen a device is not idle.
    failure
        Chance of a failure of the network in a slot, of `ALL`.
    chances
        1 - exp(-x) at multiples of 2**-10 up to 16, of `ALL`.
    reach
        No use or failure, with the time after it, is longer.
    facts, keys
        (days, columns) as named above; the indices' parts of the keys of their draws.
    walls, shifts
        (k,) clock times near these days from which another offset is used; (k + 1,) what to take off a clock time to
        have the instant, before, between and after them.
    begin
        Instant at which the first slot begins.
    slot_keys, shares
        (slots, columns) keys as of days; (slots,) part of a day's screen uses that begin in each, in units of 2**-30.
    """

    key: np.uint64
    first: int
    persons: NDArray[np.int32]
    tables: Tables
    commute: int
    settle: int
    failure: int
    chances: NDArray[np.int32]
    reach: int
    facts: Ints
    keys: NDArray[np.uint64]
    walls: Ints
    shifts: Ints
    begin: int
    slot_keys: NDArray[np.uint64]
    shares: Ints


def _tables_of(habits: Habits) -> Tables:
    night, top_up = habits.charging.night, habits.charging.top_up
    until_hour = np.concatenate([[0.0], np.cumsum(top_up.by_hour)]) / sum(top_up.by_hour)
    tables = [
        *(_normal(each) for each in (night.between_days, night.length_between_days, habits.network.between_days)),
        tabulated(lambda p: np.interp(p, until_hour, np.arange(25) * 3600.0), 86_400.0),
        tabulated(distribution(top_up.length).quantile, TOP_UP_AT_MOST_S),
        tabulated(distribution(habits.idle.use).quantile, SHORT_AT_MOST_S),
        tabulated(distribution(habits.network.drop_outs.length).quantile, SHORT_AT_MOST_S),
    ]
    return np.concatenate(tables)


def _normal(deviation_s: float) -> Tables:
    return tabulated(lambda p: deviation_s * np.clip(ndtri(p), -LIMIT, LIMIT), np.inf)


class Calendar:
    """What the compiled loops know of some habits, for any time; `key` is that of the stream for availability."""

    def __init__(self, habits: Habits, key: int) -> None:
        self._habits, night = habits, habits.charging.night
        settle, failure = to_ms(habits.idle.settle), -np.expm1(-habits.network.drop_outs.per_hour / (HOUR // SLOT))
        self._always: dict[str, Any] = {
            "key": np.uint64(key),
            "tables": _tables_of(habits),
            "commute": to_ms(habits.network.commute),
            "settle": settle,
            "failure": int(scaled_chance(failure)),
            "chances": scaled_chance(-np.expm1(-np.arange((1 << 14) + 1) / (1 << 10))).astype(np.int32),
        }
        self._reach = to_ms(SHORT_AT_MOST_S) + settle
        off = LIMIT * (night.between_persons + night.between_days)
        usual = (_evening(night.plug_in), _evening(night.plug_in_weekend))
        self._off = to_ms(off)
        longest = max(night.length, night.length_weekend)
        longest += LIMIT * (night.length_between_persons + night.length_between_days)
        self._longest = min(to_ms(longest), NIGHT_AT_MOST)
        latest = max(to_ms(max(usual)) + self._off + self._longest, DAY + to_ms(TOP_UP_AT_MOST_S))
        # Days whose sessions may reach into a day: those before it, and the next ones.
        self._before, self._after = (latest - 1) // DAY, int(to_ms(min(usual)) < self._off)
        hours = np.array(habits.idle.by_hour)
        self._shares = np.rint(hours / sum(habits.idle.by_hour) / 12 * (1 << 30)).astype(np.int64)
        self._days = lru_cache(maxsize=64)(self._days_of)
        self._slots = lru_cache(maxsize=64)(self._slots_of)

    def known(self, since: int, until: int, clock: Civil, persons: Persons) -> Known:
        """Return what is known of all days and slots that matter from an instant up to another one, both included."""
        first, last = (since - self._reach + clock.begun) // SLOT, (until + clock.begun) // SLOT
        run = first // _SLOTS * _SLOTS  # slots are worked out some thousands at a time
        slots = self._slots(run, max(run + _SLOTS + _SLOTS // 8, last + 1), clock)
        days = self._days(clock.day(since), clock.day(until), clock)
        of_persons: dict[str, Any] = {"first": persons.first, "persons": persons.columns}
        return Known(**of_persons, reach=self._reach, **self._always, **days, **slots)

    def _days_of(self, first: int, last: int, clock: Civil) -> dict[str, Any]:
        days = np.arange(first - self._before, last + self._after + 1)
        near = _near(clock, days)
        if near.start < near.stop:  # where clocks are changed, sessions may reach further, by up to a day
            days = np.arange(days[0] - 1, days[-1] + 2)
            near = _near(clock, days)
        shifts = clock.offsets[near.start : near.stop + 1] + clock.begun
        facts = self._facts(days, shifts, clock)
        return {"facts": facts, "keys": _keys(days), "walls": clock.walls[near], "shifts": shifts}

    def _facts(self, days: Ints, shifts: Ints, clock: Civil) -> Ints:
        night, network = self._habits.charging.night, self._habits.network
        weekend, free = _weekends(days), _weekends(days + 1)
        midnights, least, most = clock.midnight(days), shifts.min(), shifts.max()
        plug_in = midnights + _each(free, _evening(night.plug_in_weekend), _evening(night.plug_in))
        columns = {
            NIGHT_FROM: plug_in - self._off - most,
            NIGHT_TO: plug_in + self._off - least + self._longest,
            PLUG_IN: plug_in,
            LASTS: _each(free, night.length_weekend, night.length),
            TOP_UP_FROM: midnights - most,
            TOP_UP_TO: midnights + DAY - least + to_ms(TOP_UP_AT_MOST_S),
            MIDNIGHT: midnights,
            TOP_UP_COLUMN: np.where(weekend, TOP_UP_WEEKEND, TOP_UP),
            OUT_FROM: midnights - most,
            OUT_TO: midnights + DAY - least,
            OUT_CHANCE: scaled_chance(np.where(weekend, network.weekend.chance, network.weekday.chance)),
            LEAVE: _each(weekend, network.weekend.leave, network.weekday.leave),
            BACK: _each(weekend, network.weekend.back, network.weekday.back),
            AT_WORK: ~weekend,
        }
        return np.column_stack([columns[column] for column in range(_FACTS)]).astype(np.int64)

    def _slots_of(self, first: int, last: int, clock: Civil) -> dict[str, Any]:
        slots = np.arange(first, last + 1)
        begins = slots * SLOT - clock.begun
        count = slots + clock.first_day * _PER_DAY
        keys = np.column_stack([mixed_index(index(each, count)) for each in (Draw.EVENT, Draw.USE, Draw.FAILURE)])
        shares = self._shares[clock.wall(begins) // HOUR % 24]
        return {"begin": int(begins[0]), "slot_keys": keys, "shares": shares}


def _near(clock: Civil, days: Ints) -> slice:
    """Return which changes of the clocks matter to some days."""
    ends = clock.midnight(np.array([days[0] - 1, days[-1] + 4]))
    return slice(*clock.walls.searchsorted(ends).tolist())


def _keys(days: Ints) -> NDArray[np.uint64]:
    columns = [(each, 0) for each in (Draw.NIGHT, Draw.NIGHT_LENGTH, Draw.OUTING, Draw.BACK)]
    columns += [(Draw.TOP_UP, number) for number in range(TOP_UPS // 2)]
    columns += [(Draw.TOP_UP_TIME, number) for number in range(TOP_UPS)]
    return np.column_stack([mixed_index(index(what, days, number)) for what, number in columns])


def _weekends(days: Ints) -> Bools:
    """Say of ordinals of days whether they are a Saturday or Sunday."""
    return (days + 6) % 7 >= 5


def _each(where: Bools, one_s: float, other_s: float) -> Ints:
    return np.where(where, to_ms(one_s), to_ms(other_s))


def _evening(clock_s: float) -> float:
    """Return seconds after the midnight at which the day begins: before noon means after the next midnight."""
    return clock_s if clock_s >= 43_200.0 else clock_s + 86_400.0
