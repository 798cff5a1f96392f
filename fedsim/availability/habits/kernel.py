"""When one person's device is on a charger, on a network and out of use: compiled, in whole milliseconds.

`holding_until` says whether a device meets its conditions at an instant, and until when; `unmet`, which ones it does
not; `meetings`, when it does in a window; `possible_parts`, in which parts of a day it may. What they know of persons,
days and slots (`Known`) is told in `persons` and `days`; `word` is the client's part of the keys of its draws.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Reasons
from fedsim.availability.habits import days as of_day
from fedsim.availability.habits import persons as of_person
from fedsim.availability.habits.days import NIGHT_AT_MOST, SLOT, Known
from fedsim.availability.habits.laws import drawn
from fedsim.availability.habits.persons import ALL, TOP_UPS
from fedsim.common.arrays import Bits, Ints
from fedsim.common.compiled import compiled, inlined
from fedsim.common.instants import DAY
from fedsim.common.keyed_loops import mixed, word_of
from fedsim.common.reasons import Reason

CHARGING, NETWORK, IDLE = int(Reason.NO_CHARGER), int(Reason.NO_NETWORK), int(Reason.IN_USE)
"""Conditions, as the reasons while they do not hold; added up where several are meant."""
PARTS: Final = 64
"""Parts of a day, one for each bit of a word."""
_2, _32, _34 = np.uint64(2), np.uint64(32), np.uint64(34)
_LOW_30, _LOW_32 = np.uint64((1 << 30) - 1), np.uint64((1 << 32) - 1)
_EVERY, _NONE = ~np.uint64(0), np.uint64(0)
_SURE: Final = 16 << 10  # place in the table of chances from which on they are 1
_TOGETHER: Final = 32


@inlined
def _upper_30(bits: np.uint64) -> int:
    """Return the upper 30 bits of a draw, with which a chance is compared."""
    return int(np.int64(bits >> _34))


@inlined
def _lower_30(bits: np.uint64) -> int:
    """Return the upper 30 bits of its lower half, for another chance."""
    return int(np.int64((bits >> _2) & _LOW_30))


@inlined
def _upper(bits: np.uint64) -> int:
    return int(np.int64(bits >> _32))


@inlined
def _lower(bits: np.uint64) -> int:
    return int(np.int64(bits & _LOW_32))


@inlined
def _instant(wall: int, known: Known) -> int:
    """Return the instant of a clock time."""
    place = 0
    while place < len(known.walls) and known.walls[place] <= wall:
        place += 1
    return wall - int(known.shifts[place])


@inlined
def _night(word: np.uint64, row: int, day: int, known: Known) -> tuple[int, int]:
    """Return the night's session of a day; an empty one, if there is none."""
    bits = mixed(word ^ known.keys[day, of_day.NIGHT_KEY])
    if _upper_30(bits) >= known.persons[row, of_person.NIGHT]:
        return 0, 0
    later = known.persons[row, of_person.LATER] + drawn(known.tables, of_day.NIGHT_TIME, _lower(bits))
    start = _instant(known.facts[day, of_day.PLUG_IN] + later, known)
    bits = mixed(word ^ known.keys[day, of_day.LENGTH_KEY])
    longer = known.persons[row, of_person.LONGER] + drawn(known.tables, of_day.NIGHT_LENGTH, _upper(bits))
    return start, start + min(max(known.facts[day, of_day.LASTS] + longer, 0), NIGHT_AT_MOST)


@inlined
def _top_ups(word: np.uint64, row: int, day: int, known: Known) -> int:
    """Return which top-ups of a day take place, as bits."""
    taken, chance = 0, known.persons[row, known.facts[day, of_day.TOP_UP_COLUMN]]
    for pair in range(TOP_UPS // 2):
        bits = mixed(word ^ known.keys[day, of_day.TOP_UP_KEY + pair])
        taken |= (int(_upper_30(bits) < chance) | int(_lower_30(bits) < chance) << 1) << 2 * pair
    return taken


@inlined
def _top_up(word: np.uint64, number: int, day: int, known: Known) -> tuple[int, int]:
    """Return a top-up of a day that takes place."""
    bits = mixed(word ^ known.keys[day, of_day.TOP_UP_TIME_KEY + number])
    start = _instant(known.facts[day, of_day.MIDNIGHT] + drawn(known.tables, of_day.TOP_UP_TIME, _upper(bits)), known)
    return start, start + drawn(known.tables, of_day.TOP_UP_LENGTH, _lower(bits))


@inlined
def _outing(word: np.uint64, row: int, day: int, known: Known) -> tuple[int, int, int, int]:
    """Return when a person leaves home on a day, is back, comes to work and leaves it; all the same, if never."""
    facts, bits = known.facts, mixed(word ^ known.keys[day, of_day.OUTING_KEY])
    if _upper_30(bits) >= facts[day, of_day.OUT_CHANCE]:
        return 0, 0, 0, 0
    leave = facts[day, of_day.LEAVE] + known.persons[row, of_person.LEAVES]
    leave = min(max(leave + drawn(known.tables, of_day.OUTING_TIME, _lower(bits)), 0), DAY)
    bits = mixed(word ^ known.keys[day, of_day.BACK_KEY])
    back = facts[day, of_day.BACK] + known.persons[row, of_person.RETURNS]
    back = max(min(back + drawn(known.tables, of_day.OUTING_TIME, _upper(bits)), DAY), leave)
    work_until = max(back - known.commute, leave) if facts[day, of_day.AT_WORK] else leave
    work_since = min(leave + known.commute, work_until)
    midnight = facts[day, of_day.MIDNIGHT]
    return (
        _instant(midnight + leave, known),
        _instant(midnight + back, known),
        _instant(midnight + work_since, known),
        _instant(midnight + work_until, known),
    )


@inlined
def _plugged_until(word: np.uint64, row: int, instant: int, limit: int, known: Known) -> int:
    """Return until when a device is on its charger: the instant, if it is not; beyond the limit, any time after it."""
    facts, until, before = known.facts, instant, instant - 1
    while before < until:
        before = until
        for day in range(len(facts)):
            if facts[day, of_day.NIGHT_FROM] <= until < facts[day, of_day.NIGHT_TO]:
                start, end = _night(word, row, day, known)
                if start <= until < end:
                    until = end
                    if until > limit:
                        return until
            if facts[day, of_day.TOP_UP_FROM] <= until < facts[day, of_day.TOP_UP_TO]:
                taken = _top_ups(word, row, day, known)
                for number in range(TOP_UPS):
                    if taken >> number & 1:
                        start, end = _top_up(word, number, day, known)
                        if start <= until < end:
                            until = end
                            if until > limit:
                                return until
    return until


@inlined
def _plugged_from(word: np.uint64, row: int, instant: int, limit: int, known: Known) -> int:
    """Return when the next session on a charger begins, after an instant; some time after the limit, if later."""
    facts, found = known.facts, limit + 1
    for day in range(len(facts)):
        if facts[day, of_day.NIGHT_FROM] < found and facts[day, of_day.NIGHT_TO] > instant:
            start, end = _night(word, row, day, known)
            if instant < start < min(found, end):
                found = start
        if facts[day, of_day.TOP_UP_FROM] < found and facts[day, of_day.TOP_UP_TO] > instant:
            taken = _top_ups(word, row, day, known)
            for number in range(TOP_UPS):
                if taken >> number & 1:
                    start, end = _top_up(word, number, day, known)
                    if instant < start < min(found, end):
                        found = start
    return found


@inlined
def _networked_until(word: np.uint64, row: int, instant: int, limit: int, known: Known) -> int:
    """Return until when a device has a network, failures left aside; as `_plugged_until`."""
    # Each step goes on to the end of the time at home or at work, until neither extends it.
    facts, networks = known.facts, known.persons[row, of_person.USES_AND_NETWORKS] & 3
    until, before = instant, instant - 1
    while networks and before < until <= limit:
        before, away, leaves, at_work_until = until, False, limit + 1, until
        for day in range(len(facts)):
            if facts[day, of_day.OUT_TO] > until and facts[day, of_day.OUT_FROM] <= limit:
                leave, back, work_since, work_until = _outing(word, row, day, known)
                away |= leave <= until < back
                if until < leave < back:
                    leaves = min(leaves, leave)
                if networks & of_person.AT_WORK and work_since <= until < work_until:
                    at_work_until = max(at_work_until, work_until)
        until = leaves if networks & of_person.AT_HOME and not away else at_work_until
    return until


@inlined
def _networked_from(word: np.uint64, row: int, instant: int, limit: int, known: Known) -> int:
    """Return the next instant after one at which a device may have a network again: the caller has to look there."""
    facts, found = known.facts, limit + 1
    for day in range(len(facts) if known.persons[row, of_person.USES_AND_NETWORKS] & 3 else 0):
        if facts[day, of_day.OUT_FROM] < found and facts[day, of_day.OUT_TO] > instant:
            _, back, work_since, _ = _outing(word, row, day, known)
            if instant < back < found:
                found = back
            if instant < work_since < found:
                found = work_since
    return found


@inlined
def _chance_of_use(row: int, slot: int, known: Known) -> int:
    """Return the chance, of `ALL`, that a screen use begins in a slot: 1 - exp(-x), x in units of 2**-26."""
    uses = np.int64(known.persons[row, of_person.USES_AND_NETWORKS]) >> 2
    x = uses * known.shares[slot] >> 19
    place = x >> 16
    if place >= _SURE:
        return ALL
    low = int(known.chances[place])
    return low + ((int(known.chances[place + 1]) - low) * int(x & 0xFFFF) >> 16)


@inlined
def _event(word: np.uint64, slot: int, key: int, law: int, after: int, known: Known) -> tuple[int, int]:
    """Return the screen use or the failure of a slot in which one begins; `after` is added to its length."""
    bits = mixed(word ^ known.slot_keys[slot, key])
    start = known.begin + slot * SLOT + (_upper(bits) * SLOT >> 32)
    return start, start + drawn(known.tables, law, _lower(bits)) + after


@inlined
def _troubled_until(word: np.uint64, row: int, instant: int, require: int, known: Known) -> int:
    """Return the end of a use or a failure that goes on at an instant; the instant itself, if there is none."""
    share, of_use, of_failure = -1, 0, known.failure if require & NETWORK else 0
    last = (instant - known.begin) // SLOT
    for slot in range(last, (instant - known.begin - known.reach) // SLOT - 1, -1):
        if known.shares[slot] != share and require & IDLE:
            share, of_use = known.shares[slot], _chance_of_use(row, slot, known)
        bits = mixed(word ^ known.slot_keys[slot, of_day.EVENT_KEY])
        if _upper_30(bits) < of_use:
            start, end = _event(word, slot, of_day.USE_KEY, of_day.USE_LENGTH, known.settle, known)
            if start <= instant < end:
                return end
        if _lower_30(bits) < of_failure:
            start, end = _event(word, slot, of_day.FAILURE_KEY, of_day.FAILURE_LENGTH, 0, known)
            if start <= instant < end:
                return end
    return instant


@inlined
def _troubled_from(word: np.uint64, row: int, instant: int, limit: int, require: int, known: Known) -> int:
    """Return when the next use or failure begins, after an instant; some time after the limit, if later."""
    found, share, of_use, of_failure = limit + 1, -1, 0, known.failure if require & NETWORK else 0
    for slot in range((instant - known.begin) // SLOT, (limit - known.begin) // SLOT + 1):
        if known.shares[slot] != share and require & IDLE:
            share, of_use = known.shares[slot], _chance_of_use(row, slot, known)
        bits = mixed(word ^ known.slot_keys[slot, of_day.EVENT_KEY])
        if _upper_30(bits) < of_use:
            start, end = _event(word, slot, of_day.USE_KEY, of_day.USE_LENGTH, known.settle, known)
            if instant < start < min(found, end):
                found = start
        if _lower_30(bits) < of_failure:
            start, end = _event(word, slot, of_day.FAILURE_KEY, of_day.FAILURE_LENGTH, 0, known)
            if instant < start < min(found, end):
                found = start
        if found <= limit:
            break
    return found


@compiled
def holding_until(clients: Clients, instant: int, limits: Ints, require: int, known: Known) -> Ints:
    """Return until when each client (n,) meets all required conditions from an instant on.

    The instant itself, where it does not meet them now; an instant after the limit, where it does up to there.
    `limits` are those of each, or (1,) of all. What is known must reach to the last of them.
    """
    found = np.empty(len(clients), np.int64)
    for place in range(len(clients)):
        if place % _TOGETHER == 0:  # load the rows of some clients in one loop, so that cache misses overlap
            for near in range(place, min(place + _TOGETHER, len(clients))):
                found[near] = known.persons[clients[near] - known.first, 0]
        row, limit = clients[place] - known.first, limits[place if len(limits) > 1 else 0]
        word, until = word_of(clients[place], known.key), limit + 1
        if require & CHARGING:
            until = min(until, _plugged_until(word, row, instant, limit, known))
        if require & NETWORK and until > instant:
            until = min(until, _networked_until(word, row, instant, until - 1, known))
        if require & (NETWORK | IDLE) and until > instant:
            if _troubled_until(word, row, instant, require, known) > instant:
                until = instant
            elif until > instant + 1:
                until = _troubled_from(word, row, instant, until - 1, require, known)
        found[place] = until
    return found


@compiled
def unmet(clients: Clients, instant: int, require: int, known: Known) -> Reasons:
    """Return which required conditions each client (n,) does not meet at an instant, as reasons."""
    found = np.zeros(len(clients), np.uint16)
    for place in range(len(clients)):
        row, word = clients[place] - known.first, word_of(clients[place], known.key)
        if require & CHARGING and _plugged_until(word, row, instant, instant, known) == instant:
            found[place] |= CHARGING
        if require & NETWORK and _networked_until(word, row, instant, instant, known) == instant:
            found[place] |= NETWORK
        for each in (NETWORK, IDLE):
            if require & each and _troubled_until(word, row, instant, each, known) > instant:
                found[place] |= each
    return found


@compiled
def _meetings_of(client: int, since: int, until: int, require: int, known: Known) -> Iterator[tuple[int, int]]:
    """Go through [since, until) from one change of a client's conditions to the next, and yield when all hold."""
    word, row, now = word_of(client, known.key), client - known.first, since
    while now < until:
        end = until
        if require & CHARGING:
            end = min(end, _plugged_until(word, row, now, until - 1, known))
            if end == now:
                now = _plugged_from(word, row, now, until - 1, known)
                continue
        if require & NETWORK:
            end = min(end, _networked_until(word, row, now, end - 1, known))
            if end == now:
                now = _networked_from(word, row, now, until - 1, known)
                continue
        while now < end:
            trouble_ends, trouble_begins = now, end
            if require & (NETWORK | IDLE):
                trouble_ends = _troubled_until(word, row, now, require, known)
                if trouble_ends == now:  # none goes on
                    trouble_begins = _troubled_from(word, row, now, end - 1, require, known)
            if trouble_ends == now:
                yield now, trouble_begins
                now = trouble_begins
            else:
                now = trouble_ends


@compiled
def meetings(
    clients: Clients, since: int, until: int, require: int, known: Known
) -> tuple[NDArray[np.intp], Ints, Ints]:
    """Return when each client (n,) meets all required conditions within [since, until): who, starts and ends.

    In the order of clients and starts, disjoint and not touching. What is known must reach to `until`.
    """
    size = 64 + len(clients) * (4 + (until - since) // (DAY // 32))
    who, starts, ends, found = np.empty(size, np.intp), np.empty(size, np.int64), np.empty(size, np.int64), 0
    for place in range(len(clients)):
        for start, end in _meetings_of(clients[place], since, until, require, known):
            if found == len(who):
                who, starts, ends = _longer(who), _longer(starts), _longer(ends)
            who[found], starts[found], ends[found] = place, start, end
            found += 1
    return who[:found], starts[:found], ends[:found]


@compiled
def _longer(values: Ints) -> Ints:
    return np.concatenate((values, np.empty_like(values)))


@inlined
def _touched(start: int, end: int, begin: int, part: int) -> np.uint64:
    """Return which of the `PARTS` parts of a day, from its begin on, an interval touches, as bits."""
    first, last = max((start - begin) // part, 0), min((end - 1 - begin) // part, PARTS - 1)
    if start >= end or first > last:
        return _NONE
    return (_EVERY << np.uint64(first)) & (_EVERY >> np.uint64(PARTS - 1 - last))


@compiled
def possible_parts(clients: Clients, begin: int, part: int, require: int, known: Known) -> Bits:
    """Return in which parts of a day each client (n,) may be on a charger, with a network if required, as bits.

    A part in which it is at some time on a charger, and at some time on a network, is among them. The day begins at an
    instant, and all parts are of one length.
    """
    facts, found = known.facts, np.empty(len(clients), np.uint64)
    for place in range(len(clients)):
        word, row = word_of(clients[place], known.key), clients[place] - known.first
        networks = known.persons[row, of_person.USES_AND_NETWORKS] & 3
        plugged, away, at_work, until = _NONE, _NONE, _NONE, begin + PARTS * part
        for day in range(len(facts)):
            if facts[day, of_day.NIGHT_FROM] < until and facts[day, of_day.NIGHT_TO] > begin:
                start, end = _night(word, row, day, known)
                plugged |= _touched(start, end, begin, part)
            if facts[day, of_day.TOP_UP_FROM] < until and facts[day, of_day.TOP_UP_TO] > begin:
                taken = _top_ups(word, row, day, known)
                for number in range(TOP_UPS):
                    if taken >> number & 1:
                        start, end = _top_up(word, number, day, known)
                        plugged |= _touched(start, end, begin, part)
            if require & NETWORK and facts[day, of_day.OUT_FROM] < until and facts[day, of_day.OUT_TO] > begin:
                leave, back, work_since, work_until = _outing(word, row, day, known)
                # Only those parts that lie within an outing as a whole are spent away from home.
                away |= _touched(leave + part - 1, back - part + 1, begin, part)
                at_work |= _touched(work_since, work_until, begin, part)
        if require & NETWORK:
            at_home = ~away if networks & of_person.AT_HOME else _NONE
            plugged &= at_home | (at_work if networks & of_person.AT_WORK else _NONE)
        found[place] = plugged
    return found
