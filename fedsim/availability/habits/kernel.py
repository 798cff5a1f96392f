"""The compiled loops: when a client's device is on a charger, on a network and idle, in whole milliseconds.

`available_until` answers for an instant, `unmet_conditions` says why not, `available_intervals` goes through a window,
and `possible_parts` coarsely through a day. All of them draw the events of the days or slots near the instant anew from
their keys: nothing is stored. `KernelTables` (in `days`) holds what they read; `row` is the client's position and row
in `tables.persons`, `day` and `slot` are rows of its days and slots, and `word` is the client's part of the keys.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Reasons
from fedsim.availability.habits import days, persons
from fedsim.availability.habits.days import NIGHT_AT_MOST, SLOT_MS, KernelTables, quantile_at
from fedsim.availability.habits.persons import CERTAIN, TOP_UPS
from fedsim.common.arrays import Bits, Ints
from fedsim.common.compiled import compiled, inlined, mixed, word_of
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.reasons import Reason

CHARGING, NETWORK, IDLE = int(Reason.NO_CHARGER), int(Reason.NO_NETWORK), int(Reason.IN_USE)
"""Conditions, as the reasons while they do not hold; several are added up, as in `require`."""
DAY_PARTS: Final = 64
"""Parts of a day in `possible_parts`, one for each bit of a word."""
_32, _LOW_32 = np.uint64(32), np.uint64((1 << 32) - 1)
_EVERY, _NONE = ~np.uint64(0), np.uint64(0)
_SURE: Final = 16 << 10  # from this index of the table of chances on they are 1


@inlined
def _upper(bits: np.uint64) -> int:
    """Return the upper half of a draw; without its last two bits, it is compared with a chance."""
    return int(np.int64(bits >> _32))


@inlined
def _lower(bits: np.uint64) -> int:
    """Return the lower half of a draw, to be used as the upper one."""
    return int(np.int64(bits & _LOW_32))


@inlined
def _instant(wall: int, tables: KernelTables) -> int:
    """Return the instant of a clock time."""
    change = 0
    while change < len(tables.walls) and tables.walls[change] <= wall:
        change += 1
    return wall - int(tables.shifts[change])


@inlined
def _night(word: np.uint64, row: int, day: int, tables: KernelTables) -> tuple[int, int]:
    """Return the start and end of a day's night session; equal if there is none."""
    bits = mixed(word ^ tables.day_keys[day, days.NIGHT_KEY])
    chance = np.int64(tables.persons[row, persons.NIGHT_CHANCE])
    chance += (tables.persons[row, persons.NIGHT_CHANCE_LATER] - chance) * tables.days[
        day, days.DRIFT
    ] >> days.DRIFT_BITS
    if _upper(bits) >> 2 >= chance:
        return 0, 0
    later = tables.persons[row, persons.NIGHT_LATER] + quantile_at(tables.quantiles, days.NIGHT_TIME, _lower(bits))
    start = _instant(tables.days[day, days.PLUG_IN] + later, tables)
    bits = mixed(word ^ tables.day_keys[day, days.LENGTH_KEY])
    longer = tables.persons[row, persons.NIGHT_LONGER] + quantile_at(tables.quantiles, days.NIGHT_LENGTH, _upper(bits))
    return start, start + min(max(tables.days[day, days.LASTS] + longer, 0), NIGHT_AT_MOST)


@inlined
def _top_ups(word: np.uint64, row: int, day: int, tables: KernelTables) -> int:
    """Return which of a day's top-ups take place, as bits."""
    taken, chance = 0, tables.persons[row, tables.days[day, days.TOP_UP_COLUMN]]
    for pair in range(TOP_UPS // 2):
        bits = mixed(word ^ tables.day_keys[day, days.TOP_UP_KEY + pair])
        taken |= (int(_upper(bits) >> 2 < chance) | int(_lower(bits) >> 2 < chance) << 1) << 2 * pair
    return taken


@inlined
def _top_up(word: np.uint64, number: int, day: int, tables: KernelTables) -> tuple[int, int]:
    """Return the start and end of a top-up that takes place."""
    bits = mixed(word ^ tables.day_keys[day, days.TOP_UP_TIME_KEY + number])
    start = _instant(
        tables.days[day, days.MIDNIGHT] + quantile_at(tables.quantiles, days.TOP_UP_TIME, _upper(bits)), tables
    )
    return start, start + quantile_at(tables.quantiles, days.TOP_UP_LENGTH, _lower(bits))


@inlined
def _outing(word: np.uint64, row: int, day: int, tables: KernelTables) -> tuple[int, int, int, int]:
    """Return when a person leaves home, is back, arrives at work and leaves work on a day; all 0 without an outing."""
    facts, bits = tables.days, mixed(word ^ tables.day_keys[day, days.OUTING_KEY])
    if _upper(bits) >> 2 >= facts[day, days.OUT_CHANCE]:
        return 0, 0, 0, 0
    leave = facts[day, days.LEAVE] + tables.persons[row, persons.LEAVES_LATER]
    leave = min(max(leave + quantile_at(tables.quantiles, days.OUTING_TIME, _lower(bits)), 0), DAY)
    bits = mixed(word ^ tables.day_keys[day, days.BACK_KEY])
    back = facts[day, days.BACK] + tables.persons[row, persons.RETURNS_LATER]
    back = max(min(back + quantile_at(tables.quantiles, days.OUTING_TIME, _upper(bits)), DAY), leave)
    work_until = max(back - tables.commute, leave) if facts[day, days.WORKDAY] else leave
    work_since = min(leave + tables.commute, work_until)
    midnight = facts[day, days.MIDNIGHT]
    return (
        _instant(midnight + leave, tables),
        _instant(midnight + back, tables),
        _instant(midnight + work_since, tables),
        _instant(midnight + work_until, tables),
    )


@inlined
def _charging_until(word: np.uint64, row: int, instant: int, limit: int, tables: KernelTables) -> int:
    """Return until when a device stays on its charger: `instant` if it is off now, any time after `limit` if longer.

    The end of each session is the next instant to look at, until no session runs on from it.
    """
    facts, until, before = tables.days, instant, instant - 1
    while before < until:
        before = until
        for day in range(len(facts)):
            if facts[day, days.NIGHT_FROM] <= until < facts[day, days.NIGHT_TO]:
                start, end = _night(word, row, day, tables)
                if start <= until < end:
                    until = end
                    if until > limit:
                        return until
            if facts[day, days.TOP_UP_FROM] <= until < facts[day, days.TOP_UP_TO]:
                taken = _top_ups(word, row, day, tables)
                for number in range(TOP_UPS):
                    if taken >> number & 1:
                        start, end = _top_up(word, number, day, tables)
                        if start <= until < end:
                            until = end
                            if until > limit:
                                return until
    return until


@inlined
def _charging_from(word: np.uint64, row: int, instant: int, limit: int, tables: KernelTables) -> int:
    """Return when the next charging session begins after an instant; any time after `limit` if later."""
    facts, earliest = tables.days, limit + 1
    for day in range(len(facts)):
        if facts[day, days.NIGHT_FROM] < earliest and facts[day, days.NIGHT_TO] > instant:
            start, end = _night(word, row, day, tables)
            if instant < start < min(earliest, end):
                earliest = start
        if facts[day, days.TOP_UP_FROM] < earliest and facts[day, days.TOP_UP_TO] > instant:
            taken = _top_ups(word, row, day, tables)
            for number in range(TOP_UPS):
                if taken >> number & 1:
                    start, end = _top_up(word, number, day, tables)
                    if instant < start < min(earliest, end):
                        earliest = start
    return earliest


@inlined
def _networked_until(word: np.uint64, row: int, instant: int, limit: int, tables: KernelTables) -> int:
    """Return until when a device has a network apart from failures; limits as in `_charging_until`.

    Each step goes on to the end of the time at home or at work, until neither extends it.
    """
    facts, networks = tables.days, tables.persons[row, persons.USES_AND_NETWORKS] & 3
    until, before, unknown = instant, instant - 1, max(limit + 1, facts[len(facts) - 1, days.OUT_FROM] + DAY)
    while networks and before < until <= limit:
        before, away, leaves, at_work_until = until, False, unknown, until
        for day in range(len(facts)):
            if facts[day, days.OUT_FROM] > limit:
                leaves = min(leaves, facts[day, days.OUT_FROM])
            elif facts[day, days.OUT_TO] > until:
                leave, back, work_since, work_until = _outing(word, row, day, tables)
                away |= leave <= until < back
                if until < leave < back:
                    leaves = min(leaves, leave)
                if networks & persons.WORK_NETWORK and work_since <= until < work_until:
                    at_work_until = max(at_work_until, work_until)
        until = leaves if networks & persons.HOME_NETWORK and not away else at_work_until
    return until


@inlined
def _networked_from(word: np.uint64, row: int, instant: int, limit: int, tables: KernelTables) -> int:
    """Return the next instant at which the person comes home or to work: there the device may have a network again."""
    facts, earliest = tables.days, limit + 1
    for day in range(len(facts) if tables.persons[row, persons.USES_AND_NETWORKS] & 3 else 0):
        if facts[day, days.OUT_FROM] < earliest and facts[day, days.OUT_TO] > instant:
            _, back, work_since, _ = _outing(word, row, day, tables)
            if instant < back < earliest:
                earliest = back
            if instant < work_since < earliest:
                earliest = work_since
    return earliest


@inlined
def _chance_of_use(row: int, slot: int, tables: KernelTables) -> int:
    """Return the chance that a screen use begins in a slot: 1 - exp(-x), x in units of 2**-26."""
    uses = np.int64(tables.persons[row, persons.USES_AND_NETWORKS]) >> 2
    x = uses * tables.use_shares[slot] >> 19
    entry = x >> 16
    if entry >= _SURE:
        return CERTAIN
    low = int(tables.use_chances[entry])
    return low + ((int(tables.use_chances[entry + 1]) - low) * int(x & 0xFFFF) >> 16)


@inlined
def _event(word: np.uint64, slot: int, key: int, table: int, after: int, tables: KernelTables) -> tuple[int, int]:
    """Return the start and end of the screen use or failure that begins in a slot; `after` is added to its length."""
    bits = mixed(word ^ tables.slot_keys[slot, key])
    start = tables.slots_begin + slot * SLOT_MS + (_upper(bits) * SLOT_MS >> 32)
    return start, start + quantile_at(tables.quantiles, table, _lower(bits)) + after


@inlined
def _disturbed_until(word: np.uint64, row: int, instant: int, require: int, tables: KernelTables) -> int:
    """Return the end of a screen use or network failure in progress; the instant itself if there is none."""
    share, of_use, of_failure = -1, 0, tables.failure_chance if require & NETWORK else 0
    last = (instant - tables.slots_begin) // SLOT_MS
    for slot in range(last, (instant - tables.slots_begin - tables.reach) // SLOT_MS - 1, -1):
        if tables.use_shares[slot] != share and require & IDLE:
            share, of_use = tables.use_shares[slot], _chance_of_use(row, slot, tables)
        bits = mixed(word ^ tables.slot_keys[slot, days.EVENT_KEY])
        if _upper(bits) >> 2 < of_use:
            start, end = _event(word, slot, days.USE_KEY, days.USE_LENGTH, tables.settle, tables)
            if start <= instant < end:
                return end
        if _lower(bits) >> 2 < of_failure:
            start, end = _event(word, slot, days.FAILURE_KEY, days.FAILURE_LENGTH, 0, tables)
            if start <= instant < end:
                return end
    return instant


@inlined
def _disturbed_from(word: np.uint64, row: int, instant: int, limit: int, require: int, tables: KernelTables) -> int:
    """Return when the next screen use or network failure begins after an instant; any time after `limit` if later."""
    earliest, share, of_use, of_failure = limit + 1, -1, 0, tables.failure_chance if require & NETWORK else 0
    for slot in range((instant - tables.slots_begin) // SLOT_MS, (limit - tables.slots_begin) // SLOT_MS + 1):
        if tables.use_shares[slot] != share and require & IDLE:
            share, of_use = tables.use_shares[slot], _chance_of_use(row, slot, tables)
        bits = mixed(word ^ tables.slot_keys[slot, days.EVENT_KEY])
        if _upper(bits) >> 2 < of_use:
            start, end = _event(word, slot, days.USE_KEY, days.USE_LENGTH, tables.settle, tables)
            if instant < start < min(earliest, end):
                earliest = start
        if _lower(bits) >> 2 < of_failure:
            start, end = _event(word, slot, days.FAILURE_KEY, days.FAILURE_LENGTH, 0, tables)
            if instant < start < min(earliest, end):
                earliest = start
        if earliest <= limit:
            break
    return earliest


@compiled
def available_until(
    clients: Ints, instant: int, limits: Ints, require: int, held: Ints, ends: bool, tables: KernelTables
) -> Ints:
    """Return until when each client (n,) is available: the instant itself where it is not, after its limit if longer.

    `limits` has one for each client or, with shape (1,), one for all; the tables must reach to the last of them. With
    `ends` all are known to be available. `held` (n,) are instants until which devices are known to be on their charger
    and a network, and is brought up to date: `ends`, asked after `at`, takes a third of the time with it.
    """
    answer = np.empty(len(clients), np.int64)
    for row in range(len(clients)):
        limit, word = limits[row if len(limits) > 1 else 0], word_of(clients[row], tables.key)
        if held[row] <= limit:
            lasts = FOREVER
            if require & CHARGING:
                lasts = _charging_until(word, row, instant, limit, tables)
            if require & NETWORK and lasts > instant:
                lasts = min(lasts, _networked_until(word, row, instant, min(lasts - 1, limit), tables))
            held[row] = lasts
        until = min(limit + 1, held[row])
        if require & (NETWORK | IDLE) and until > instant:
            if not ends and _disturbed_until(word, row, instant, require, tables) > instant:
                until = instant
            elif until > instant + 1:
                until = _disturbed_from(word, row, instant, until - 1, require, tables)
        answer[row] = until
    return answer


@compiled
def unmet_conditions(clients: Ints, instant: int, require: int, tables: KernelTables) -> Reasons:
    """Return which required conditions each client (n,) lacks at an instant, as reasons."""
    unmet = np.zeros(len(clients), np.uint16)
    for row in range(len(clients)):
        word = word_of(clients[row], tables.key)
        if require & CHARGING and _charging_until(word, row, instant, instant, tables) == instant:
            unmet[row] |= CHARGING
        if require & NETWORK and _networked_until(word, row, instant, instant, tables) == instant:
            unmet[row] |= NETWORK
        for each in (NETWORK, IDLE):
            if require & each and _disturbed_until(word, row, instant, each, tables) > instant:
                unmet[row] |= each
    return unmet


@compiled
def available_intervals(
    clients: Ints, since: int, until: int, require: int, tables: KernelTables
) -> tuple[NDArray[np.intp], Ints, Ints]:
    """Return when each client (n,) is available within [since, until): positions, starts and ends, in this order.

    Intervals are disjoint and do not touch. The tables must reach to `until`. It is no generator: each run of a
    compiled one keeps the arrays of its tables for ever.
    """
    size = 64 + len(clients) * (4 + (until - since) // (DAY // 32))
    who, starts, ends, count = np.empty(size, np.intp), np.empty(size, np.int64), np.empty(size, np.int64), 0
    for row in range(len(clients)):
        word = word_of(clients[row], tables.key)
        now = end = since  # on a charger and a network as required, until `end`
        while now < until:
            if now >= end:
                end = until
                if require & CHARGING:
                    end = min(end, _charging_until(word, row, now, until - 1, tables))
                    if end == now:
                        now = _charging_from(word, row, now, until - 1, tables)
                        continue
                if require & NETWORK:
                    end = min(end, _networked_until(word, row, now, end - 1, tables))
                    if end == now:
                        now = _networked_from(word, row, now, until - 1, tables)
                        continue
            last = end
            if require & (NETWORK | IDLE):
                disturbed_until = _disturbed_until(word, row, now, require, tables)
                if disturbed_until > now:
                    now = disturbed_until
                    continue
                last = _disturbed_from(word, row, now, end - 1, require, tables)
            if count == len(who):
                who, starts, ends = _doubled(who), _doubled(starts), _doubled(ends)
            who[count], starts[count], ends[count] = row, now, last
            count, now = count + 1, last
    return who[:count], starts[:count], ends[:count]


@compiled
def _doubled(values: Ints) -> Ints:
    return np.concatenate((values, np.empty_like(values)))


@inlined
def _overlapped_parts(start: int, end: int, begin: int, part: int) -> np.uint64:
    """Return which parts of a day that starts at `begin` an interval overlaps, as bits."""
    first, last = max((start - begin) // part, 0), min((end - 1 - begin) // part, DAY_PARTS - 1)
    if start >= end or first > last:
        return _NONE
    return (_EVERY << np.uint64(first)) & (_EVERY >> np.uint64(DAY_PARTS - 1 - last))


@compiled
def possible_parts(clients: Ints, begin: int, part: int, require: int, tables: KernelTables) -> Bits:
    """Return in which parts of a day each client (n,) may be on a charger, with a network if required, as bits.

    These are the parts in which it is on a charger at some time and on a network at some time. The day starts at
    `begin`, and each part is `part` milliseconds long.
    """
    facts, parts = tables.days, np.empty(len(clients), np.uint64)
    for row in range(len(clients)):
        word = word_of(clients[row], tables.key)
        networks = tables.persons[row, persons.USES_AND_NETWORKS] & 3
        charging, away, at_work, until = _NONE, _NONE, _NONE, begin + DAY_PARTS * part
        for day in range(len(facts)):
            if facts[day, days.NIGHT_FROM] < until and facts[day, days.NIGHT_TO] > begin:
                start, end = _night(word, row, day, tables)
                charging |= _overlapped_parts(start, end, begin, part)
            if facts[day, days.TOP_UP_FROM] < until and facts[day, days.TOP_UP_TO] > begin:
                taken = _top_ups(word, row, day, tables)
                for number in range(TOP_UPS):
                    if taken >> number & 1:
                        start, end = _top_up(word, number, day, tables)
                        charging |= _overlapped_parts(start, end, begin, part)
            if require & NETWORK and facts[day, days.OUT_FROM] < until and facts[day, days.OUT_TO] > begin:
                leave, back, work_since, work_until = _outing(word, row, day, tables)
                # Only parts that lie wholly within an outing are spent away from home.
                away |= _overlapped_parts(leave + part - 1, back - part + 1, begin, part)
                at_work |= _overlapped_parts(work_since, work_until, begin, part)
        if require & NETWORK:
            at_home = ~away if networks & persons.HOME_NETWORK else _NONE
            charging &= at_home | (at_work if networks & persons.WORK_NETWORK else _NONE)
        parts[row] = charging
    return parts
