"""The tables that the compiled loops read: distributions, persons, some local days, and five-minute slots of UTC."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedsim.availability.civil import Civil
from fedsim.availability.habits.persons import (
    LIMIT,
    TOP_UP_CHANCE,
    TOP_UP_WEEKEND_CHANCE,
    TOP_UPS,
    Draw,
    draw_index,
    scaled_chance,
)
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.compiled import inlined
from fedsim.common.instants import DAY, DAY_S, HOUR, HOUR_S, to_ms
from fedsim.common.keyed import mixed_index
from fedsim.population.distributions import distribution
from fedsim.scenario.habits import Habits

NIGHT_AT_MOST: Final = 16 * HOUR
TOP_UP_AT_MOST_S, SHORT_AT_MOST_S = 8 * HOUR_S, HOUR_S
SLOT_MS: Final = 300_000
_SLOTS_PER_DAY = DAY // SLOT_MS
_SLOT_BLOCK = 4096  # slots whose keys are computed at once
QuantileTables = NDArray[np.int32]
"""(tables * TABLE_SIZE,) quantiles in whole milliseconds, one table after the other, for linear interpolation. A table
has 1,024 bins for the unit interval, and as many for its first and last 64th and its first and last 4,096th."""
_BINS, _FINER = 1 << 10, 1 << 6
_ALL, _TAIL, _END = 1 << 32, (1 << 32) // _FINER, (1 << 32) // _FINER**2
_LOWER_TAIL, _UPPER_TAIL, _LOWER_END, _UPPER_END = ((_BINS + 1) * part for part in range(1, 5))
TABLE_SIZE: Final = 5 * (_BINS + 1)
_SMALLEST = 2.0**-33  # half the distance of two draws
(
    NIGHT_TIME, NIGHT_LENGTH, OUTING_TIME, TOP_UP_TIME, TOP_UP_LENGTH, USE_LENGTH,
    FAILURE_LENGTH,
) = (TABLE_SIZE * number for number in range(7))  # fmt: skip
"""Where the table of each distribution begins."""
(
    NIGHT_FROM, NIGHT_TO, PLUG_IN, LASTS, TOP_UP_FROM, TOP_UP_TO, MIDNIGHT, TOP_UP_COLUMN,
    OUT_FROM, OUT_TO, OUT_CHANCE, LEAVE, BACK, WORKDAY, DRIFT,
) = range(_DAY_COLUMNS := 15)  # fmt: skip
"""Columns of a day. `*_FROM` and `*_TO` are instants between which its night session, its top-ups and its outing lie.
`PLUG_IN` and `MIDNIGHT` are clock times, `LEAVE` and `BACK` clock times after midnight, and `LASTS` is the usual length
of the night session. `TOP_UP_COLUMN` is the column of the persons with the chance of a top-up, and `DRIFT` says how far
habits have drifted, from 0 to 2**`DRIFT_BITS`."""
DRIFT_BITS: Final = 10
NIGHT_KEY, LENGTH_KEY, OUTING_KEY, BACK_KEY, TOP_UP_KEY = range(5)
TOP_UP_TIME_KEY: Final = TOP_UP_KEY + TOP_UPS // 2
"""Columns of the keys of a day's draws; top-ups have several."""
EVENT_KEY, USE_KEY, FAILURE_KEY = range(3)
"""Columns of the keys of a slot's draws."""


class KernelTables(NamedTuple):
    """What the compiled loops read; chances are in units of `CERTAIN`."""

    key: np.uint64  # key of the stream for availability
    persons: NDArray[np.int32]  # rows of `Persons.columns`, of the clients that are asked about
    quantiles: QuantileTables  # the tables of all distributions, each from its constant above on
    # commute, settle: time between home and work; how long after a screen use a device is not idle
    commute: int
    settle: int
    failure_chance: int  # chance of a network failure in a slot
    use_chances: NDArray[np.int32]  # 1 - exp(-x) at multiples of 2**-10 up to 16
    reach: int  # longest screen use or failure, `settle` included
    # days, day_keys: (days, columns as named above); the parts of the keys of their draws that come from the index
    days: Ints
    day_keys: NDArray[np.uint64]
    # walls, shifts: (k,) clock times near these days from which another offset is used; (k + 1,) what to subtract from
    # a clock time to get the instant, before, between and after them
    walls: Ints
    shifts: Ints
    slots_begin: int  # instant at which the first slot begins
    # slot_keys, use_shares: (slots, columns) keys as of days; (slots,) share of a day's screen uses in each slot, in
    # units of 2**-30
    slot_keys: NDArray[np.uint64]
    use_shares: Ints


def quantile_table(quantile: Callable[[Floats], Floats], longest_s: float) -> QuantileTables:
    """Return the table (TABLE_SIZE,) of a distribution.

    `quantile` gives values in seconds that are exceeded with probability 1 - p, for p (n,) strictly between 0 and 1.
    Those above `longest_s` are cut there; what is left must be below 2**31 milliseconds.
    """
    even = np.arange(_BINS + 1) / _BINS
    tail, end = even / _FINER, even / _FINER**2
    p = np.concatenate([even, tail, 1.0 - tail[::-1], end, 1.0 - end[::-1]])
    values = quantile(np.clip(p, _SMALLEST, 1.0 - _SMALLEST))
    return np.rint(1000.0 * np.minimum(values, longest_s)).astype(np.int32)


@inlined
def quantile_at(tables: QuantileTables, table: int, bits: int) -> int:
    """Return the value of the distribution whose table begins at `table`, from 32 random bits."""
    begin, digits = 0, 22
    if not _TAIL <= bits < _ALL - _TAIL:
        if _END <= bits < _ALL - _END:
            begin, digits = _LOWER_TAIL, 16
            if bits >= _TAIL:
                begin, bits = _UPPER_TAIL, bits - (_ALL - _TAIL)
        else:
            begin, digits = _LOWER_END, 10
            if bits >= _TAIL:
                begin, bits = _UPPER_END, bits - (_ALL - _END)
    at = table + begin + (bits >> digits)
    low = int(tables[at])
    return low + ((int(tables[at + 1]) - low) * (bits & ((1 << digits) - 1)) >> digits)


def _quantile_tables(habits: Habits) -> QuantileTables:
    night, top_up = habits.charging.night, habits.charging.top_up
    until_hour = np.concatenate([[0.0], np.cumsum(top_up.by_hour)]) / sum(top_up.by_hour)
    tables = [
        *(_normal(each) for each in (night.between_days, night.length_between_days, habits.network.between_days)),
        quantile_table(lambda p: np.interp(p, until_hour, np.arange(25) * HOUR_S), DAY_S),
        quantile_table(distribution(top_up.length).quantile, TOP_UP_AT_MOST_S),
        quantile_table(distribution(habits.idle.use).quantile, SHORT_AT_MOST_S),
        quantile_table(distribution(habits.network.drop_outs.length).quantile, SHORT_AT_MOST_S),
    ]
    return np.concatenate(tables)


def _normal(deviation_s: float) -> QuantileTables:
    return quantile_table(lambda p: deviation_s * np.clip(ndtri(p), -LIMIT, LIMIT), np.inf)


class TableBuilder:
    """Makes the tables of some habits for any time; `key` is that of the stream for availability."""

    def __init__(self, habits: Habits, key: int) -> None:
        self._habits, night = habits, habits.charging.night
        settle, failure = to_ms(habits.idle.settle), -np.expm1(-habits.network.drop_outs.per_hour / (HOUR // SLOT_MS))
        self._constant: dict[str, Any] = {
            "key": np.uint64(key),
            "quantiles": _quantile_tables(habits),
            "commute": to_ms(habits.network.commute),
            "settle": settle,
            "failure_chance": int(scaled_chance(failure)),
            "use_chances": scaled_chance(-np.expm1(-np.arange((1 << 14) + 1) / (1 << 10))).astype(np.int32),
        }
        self._reach = to_ms(SHORT_AT_MOST_S) + settle
        off = LIMIT * (night.between_persons + night.between_days)
        self._drift, later_s = habits.drift, 0.0
        if self._drift is not None and self._drift.plug_in is not None:
            later_s = _evening_s(self._drift.plug_in) - _evening_s(night.plug_in)
        self._later = to_ms(abs(later_s)) * (1 if later_s > 0 else -1)
        spans = [np.arange(each.first.toordinal(), each.last.toordinal() + 1) for each in habits.holidays]
        self._holidays = np.unique(np.concatenate(spans)) if spans else np.empty(0, dtype=np.int64)
        usual = [at + by for at in map(_evening_s, (night.plug_in, night.plug_in_weekend)) for by in (0.0, later_s)]
        self._off = to_ms(off)
        longest = max(night.length, night.length_weekend)
        longest += LIMIT * (night.length_between_persons + night.length_between_days)
        self._longest = min(to_ms(longest), NIGHT_AT_MOST)
        latest = max(to_ms(max(usual)) + self._off + self._longest, DAY + to_ms(TOP_UP_AT_MOST_S))
        # How many days before a day, and after it, have sessions that may reach into it.
        self._before, self._after = (latest - 1) // DAY, int(to_ms(min(usual)) < self._off)
        hours = np.array(habits.idle.by_hour)
        self._use_shares = np.rint(hours / sum(habits.idle.by_hour) / 12 * (1 << 30)).astype(np.int64)
        self._days = lru_cache(maxsize=64)(self._days_of)
        self._slots = lru_cache(maxsize=64)(self._slots_of)

    def build(self, since: int, until: int, clock: Civil, persons: NDArray[np.int32]) -> KernelTables:
        """Return tables with these persons, and all days and slots that matter in [since, until]."""
        first, last = (since - self._reach + clock.begun) // SLOT_MS, (until + clock.begun) // SLOT_MS
        block = first // _SLOT_BLOCK * _SLOT_BLOCK
        slots = self._slots(block, max(block + _SLOT_BLOCK + _SLOT_BLOCK // 8, last + 1), clock)
        days = self._days(clock.day(since), clock.day(until), clock)
        return KernelTables(persons=persons, reach=self._reach, **self._constant, **days, **slots)

    def _days_of(self, first: int, last: int, clock: Civil) -> dict[str, Any]:
        days = np.arange(first - self._before, last + self._after + 1)
        near = _nearby_changes(clock, days)
        if near.start < near.stop:  # where clocks are changed, sessions may reach further, by up to a day
            days = np.arange(days[0] - 1, days[-1] + 2)
            near = _nearby_changes(clock, days)
        shifts = clock.offsets[near.start : near.stop + 1] + clock.begun
        draws = [(each, 0) for each in (Draw.NIGHT, Draw.NIGHT_LENGTH, Draw.OUTING, Draw.BACK)]
        draws += [(Draw.TOP_UP, number) for number in range(TOP_UPS // 2)]
        draws += [(Draw.TOP_UP_TIME, number) for number in range(TOP_UPS)]
        keys = np.column_stack([mixed_index(draw_index(what, days, number)) for what, number in draws])
        columns = self._day_columns(days, shifts, clock)
        return {"days": columns, "day_keys": keys, "walls": clock.walls[near], "shifts": shifts}

    def _day_columns(self, days: Ints, shifts: Ints, clock: Civil) -> Ints:
        night, network = self._habits.charging.night, self._habits.network
        weekend, free = self._free(days), self._free(days + 1)
        midnights, least, most = clock.midnight(days), shifts.min(), shifts.max()
        passed = np.zeros(len(days))
        workday_out = np.full(len(days), network.weekday.chance)
        if self._drift is not None:
            passed = np.clip((days - clock.first_day) * DAY / to_ms(self._drift.over), 0.0, 1.0)
            if self._drift.outing_chance is not None:
                workday_out += (self._drift.outing_chance - workday_out) * passed
        plug_in = midnights + _choose_ms(free, _evening_s(night.plug_in_weekend), _evening_s(night.plug_in))
        plug_in += np.rint(self._later * passed).astype(np.int64)
        columns = {
            NIGHT_FROM: plug_in - self._off - most,
            NIGHT_TO: plug_in + self._off - least + self._longest,
            PLUG_IN: plug_in,
            LASTS: _choose_ms(free, night.length_weekend, night.length),
            TOP_UP_FROM: midnights - most,
            TOP_UP_TO: midnights + DAY - least + to_ms(TOP_UP_AT_MOST_S),
            MIDNIGHT: midnights,
            TOP_UP_COLUMN: np.where(weekend, TOP_UP_WEEKEND_CHANCE, TOP_UP_CHANCE),
            OUT_FROM: midnights - most,
            OUT_TO: midnights + DAY - least,
            OUT_CHANCE: scaled_chance(np.where(weekend, network.weekend.chance, workday_out)),
            LEAVE: _choose_ms(weekend, network.weekend.leave, network.weekday.leave),
            BACK: _choose_ms(weekend, network.weekend.back, network.weekday.back),
            WORKDAY: ~weekend,
            DRIFT: np.rint(passed * (1 << DRIFT_BITS)).astype(np.int64),
        }
        return np.column_stack([columns[column] for column in range(_DAY_COLUMNS)]).astype(np.int64)

    def _free(self, days: Ints) -> Bools:
        """Return whether days, given by their ordinals, are a Saturday, Sunday or holiday."""
        return ((days + 6) % 7 >= 5) | np.isin(days, self._holidays)

    def _slots_of(self, first: int, last: int, clock: Civil) -> dict[str, Any]:
        slots = np.arange(first, last + 1)
        begins = slots * SLOT_MS - clock.begun
        count = slots + clock.first_day * _SLOTS_PER_DAY
        keys = np.column_stack([mixed_index(draw_index(each, count)) for each in (Draw.EVENT, Draw.USE, Draw.FAILURE)])
        shares = self._use_shares[clock.wall(begins) // HOUR % 24]
        return {"slots_begin": int(begins[0]), "slot_keys": keys, "use_shares": shares}


def _nearby_changes(clock: Civil, days: Ints) -> slice:
    ends = clock.midnight(np.array([days[0] - 1, days[-1] + 4]))
    return slice(*clock.walls.searchsorted(ends).tolist())


def _choose_ms(where: Bools, one_s: float, other_s: float) -> Ints:
    return np.where(where, to_ms(one_s), to_ms(other_s))


def _evening_s(clock_s: float) -> float:
    """Return a clock time in seconds after the midnight that begins its day; before noon is after the next one."""
    return clock_s if clock_s >= DAY_S / 2 else clock_s + DAY_S
