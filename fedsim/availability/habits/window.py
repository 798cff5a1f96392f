"""When many devices meet their conditions within a window in which, and around which, no clock is changed.

What is worked out is what `sweep` says, to the last bit, but less of it: loops draw and compare, numpy turns the draws
into times, and screen uses and failures of the network are drawn only while a device is on its charger with a network.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Spells
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.bursts import SLOT, Bursts, Slots, drop_outs, slots_between, uses
from fedsim.availability.habits.charging import (
    NIGHT_AT_MOST,
    TOP_UP_AT_MOST,
    TOP_UPS,
    evening,
    night_sessions,
    top_up_sessions,
    weekends,
)
from fedsim.availability.habits.draws import deviations, keys
from fedsim.availability.habits.network import outing_times
from fedsim.availability.habits.persons import (
    AT_HOME,
    AT_WORK,
    LATER,
    LEAVES,
    LIMIT,
    LONGER,
    NETWORKS,
    NIGHT,
    RETURNS,
    TOP_UP,
    TOP_UP_WEEKEND,
    Draw,
)
from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.common.keyed_loops import uniform_at, word_of
from fedsim.population.members import propensity
from fedsim.scenario.habits import Charging, Habits, Network

_MARGIN = 1.0  # seconds, far more than times are ever rounded by
_NOTHING = Spells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))


def spells_within(
    habits: Habits, clients: Clients, since: float, until: float, clock: Civil, people: Floats, draws: Stream
) -> Spells:
    """Return when each of some devices meets all conditions that are required within [since, until), cut there.

    Parameters
    ----------
    habits
        The habits of the persons behind them.
    clients
        (n,) indices of devices.
    since, until
        Seconds of simulated time.
    clock
        Civil time; it must not be changed some days before and after.
    people
        (clients, columns) what belongs to the persons, as far as charging and network are required.
    draws
        The stream for availability.
    """
    both = lasting_within(habits, clients, since, until, clock, people, np.uint64(draws.key))
    troubles = [_NOTHING, _NOTHING]
    if "network" in habits.require:
        troubles[0] = _going_on(drop_outs(habits.network), clients, both, since, until, clock, draws)
    if "idle" in habits.require:
        troubles[1] = _going_on(uses(habits.idle), clients, both, since, until, clock, draws)
    return Spells(*_without(both, troubles[0], troubles[1]))


def lasting_within(
    habits: Habits, clients: Clients, since: float, until: float, clock: Civil, people: Floats, key: np.uint64
) -> Spells:
    """Return when devices are on a charger with a network, as far as required, screen uses and failures left aside.

    They are in the order of clients and starts. Parameters as in `spells_within`; `key` is that of the draws.
    """
    nights = top_ups = _NOTHING
    outings, networks = _Outings(*_NOTHING, *_NOTHING[1:]), np.full(len(clients), AT_HOME)
    if "charging" in habits.require:
        nights, top_ups = _on_charger(habits.charging, clients, since, until, clock, people, key)
    if "network" in habits.require:
        outings = _away(habits.network, clients, since, until, clock, people, key)
        networks = people[clients, NETWORKS].astype(np.int64)
    return Spells(*_lasting("charging" in habits.require, networks, nights, top_ups, outings, since, until))


class _Days(NamedTuple):
    """Consecutive local days: which are of a weekend, and before a day that is; when they begin; keys of the draws.

    They begin at clock times and at instants. `top_up_chance` are columns of the persons. The keys are those of nights
    (d, 3), top-ups (d, 3, 4) and outings (d, 3): whether there is one, and two times.
    """

    weekend: Bools
    before_weekend: Bools
    midnights: Floats
    begins: Floats
    top_up_chance: Ints
    night: Bits
    top_up: Bits
    outing: Bits


@lru_cache(maxsize=64)
def _days(first: int, last: int, clock: Civil) -> _Days:
    days = np.arange(first, last + 1)
    weekend, midnights = weekends(days), clock.midnight(days)
    night, outing = (
        np.array([[keys(what, day)[0] for what in draws] for day in days.tolist()])
        for draws in ((Draw.NIGHT, Draw.NIGHT_TIME, Draw.NIGHT_LENGTH), (Draw.OUTING, Draw.LEAVE, Draw.BACK))
    )
    of_top_ups = (Draw.TOP_UP, Draw.TOP_UP_TIME, Draw.TOP_UP_LENGTH)
    top_up = np.array([[keys(what, day, TOP_UPS) for what in of_top_ups] for day in days.tolist()])
    chances = np.where(weekend, TOP_UP_WEEKEND, TOP_UP)
    return _Days(weekend, weekends(days + 1), midnights, clock.instant(midnights), chances, night, top_up, outing)


class _Outings(NamedTuple):
    """Outings in the order of persons and days: whose, leaving home, being back, coming to work and leaving it."""

    who: NDArray[np.intp]
    leave: Floats
    back: Floats
    work_since: Floats
    work_until: Floats


def _on_charger(
    charging: Charging, clients: Clients, since: float, until: float, clock: Civil, people: Floats, key: np.uint64
) -> tuple[Spells, Spells]:
    """Return nights' sessions and top-ups that may touch the window, in the order of clients; some may be empty."""
    night = charging.night
    off = LIMIT * (night.between_persons + night.between_days)
    usual = [evening(night.plug_in), evening(night.plug_in_weekend)]
    earliest = min(*usual, off) - off - _MARGIN  # seconds after midnight, 0 or less
    longest = max(night.length, night.length_weekend)
    longest += LIMIT * (night.length_between_persons + night.length_between_days)
    latest = max(max(usual) + off + min(longest, NIGHT_AT_MOST), DAY + TOP_UP_AT_MOST) + _MARGIN
    days = _days(clock.day(since - latest), clock.day(until - earliest), clock)
    nights, top_ups = _draw_sessions(clients, key, days, since - (DAY + TOP_UP_AT_MOST + _MARGIN), until, people)
    who, day, u, v, later, more = nights
    later, more = later + night.between_days * deviations(u), more + night.length_between_days * deviations(v)
    starts, ends = night_sessions(night, days.before_weekend[day], days.midnights[day], later, more, clock)
    also, day, u, v = top_ups
    return Spells(who, starts, ends), Spells(also, *top_up_sessions(charging.top_up, days.midnights[day], u, v, clock))


def _away(
    network: Network, clients: Clients, since: float, until: float, clock: Civil, people: Floats, key: np.uint64
) -> _Outings:
    """Return the outings on the days of the window of those who have a network somewhere."""
    days = _days(clock.day(since), clock.day(until), clock)
    who, day, u, v, leaves, returns = _draw_outings(
        clients, key, days, network.weekend.chance, network.weekday.chance, people
    )
    leaves, returns = leaves + network.between_days * deviations(u), returns + network.between_days * deviations(v)
    return _Outings(who, *outing_times(network, days.weekend[day], days.midnights[day], leaves, returns, clock))


def _going_on(
    bursts: Bursts, clients: Clients, both: Spells, since: float, until: float, clock: Civil, draws: Stream
) -> Spells:
    """Return the events that may touch some spells, in the order of clients and starts; some may be empty."""
    if not bursts.per_day:
        return _NOTHING
    reach = bursts.longest + bursts.after
    first, last = int((since - reach + clock.begun) // SLOT) - 1, int((until + clock.begun) // SLOT) + 1
    slots = slots_between(bursts.begin, bursts.last, first, last, clock)
    per_day = np.array([bursts.per_day]) if bursts.spread is None else bursts.of_person(propensity(clients, draws))
    chances = -np.expm1(-(per_day[:, None] * bursts.shares / 3600.0) * SLOT)
    who, starts, u = _draw_events(clients, np.uint64(draws.key), both, slots, clock.begun, chances, reach)
    return Spells(who, starts, bursts.ends(starts, u))


_Drawn = tuple[NDArray[np.intp], Ints, Floats, Floats]
"""What takes place: whose, on which of the days, and the draws of two times."""
_OfPersons = tuple[NDArray[np.intp], Ints, Floats, Floats, Floats, Floats]
"""The same, and how much the persons are off the usual of both times."""


@compiled
def _draw_sessions(
    clients: Clients, key: np.uint64, days: _Days, since: float, until: float, people: Floats
) -> tuple[_OfPersons, _Drawn]:
    """Draw which nights' sessions and which top-ups take place, in the order of clients and days.

    Top-ups are those of days that begin between two instants.
    """
    most, size = len(days.night), len(clients) * len(days.night)
    who, of_day, u, v = np.empty(size, np.intp), np.empty(size, np.int64), np.empty(size), np.empty(size)
    also, of_days = np.empty(TOP_UPS * size, np.intp), np.empty(TOP_UPS * size, np.int64)
    start, length = np.empty(TOP_UPS * size), np.empty(TOP_UPS * size)
    later, more = np.empty(size), np.empty(size)
    nights, top_ups = 0, 0
    for place in range(len(clients)):
        word, own = word_of(clients[place], key), people[clients[place]]
        for day in range(most):
            if uniform_at(word ^ days.night[day, 0]) < own[NIGHT]:
                who[nights], of_day[nights], later[nights], more[nights] = place, day, own[LATER], own[LONGER]
                u[nights], v[nights] = uniform_at(word ^ days.night[day, 1]), uniform_at(word ^ days.night[day, 2])
                nights += 1
            if not since <= days.begins[day] < until:
                continue
            for number in range(TOP_UPS):
                if uniform_at(word ^ days.top_up[day, 0, number]) < own[days.top_up_chance[day]]:
                    also[top_ups], of_days[top_ups] = place, day
                    start[top_ups] = uniform_at(word ^ days.top_up[day, 1, number])
                    length[top_ups] = uniform_at(word ^ days.top_up[day, 2, number])
                    top_ups += 1
    return (
        (who[:nights], of_day[:nights], u[:nights], v[:nights], later[:nights], more[:nights]),
        (also[:top_ups], of_days[:top_ups], start[:top_ups], length[:top_ups]),
    )


@compiled
def _draw_outings(
    clients: Clients, key: np.uint64, days: _Days, on_weekends: float, on_weekdays: float, people: Floats
) -> _OfPersons:
    """Draw who goes out on which day, with chances, of those who have a network somewhere."""
    most, size = len(days.outing), len(clients) * len(days.outing)
    who, of_day, u, v = np.empty(size, np.intp), np.empty(size, np.int64), np.empty(size), np.empty(size)
    leaves, returns, found = np.empty(size), np.empty(size), 0
    for place in range(len(clients)):
        own = people[clients[place]]
        if own[NETWORKS] == 0.0:
            continue
        word = word_of(clients[place], key)
        for day in range(most):
            if uniform_at(word ^ days.outing[day, 0]) < (on_weekends if days.weekend[day] else on_weekdays):
                who[found], of_day[found], leaves[found], returns[found] = place, day, own[LEAVES], own[RETURNS]
                u[found], v[found] = uniform_at(word ^ days.outing[day, 1]), uniform_at(word ^ days.outing[day, 2])
                found += 1
    return who[:found], of_day[:found], u[:found], v[:found], leaves[:found], returns[:found]


@compiled
def _merged(starts: Floats, ends: Floats, count: int) -> int:
    """Sort the first few intervals and join those that overlap or touch, in place; return how many are left."""
    for index in range(1, count):
        start, end, place = starts[index], ends[index], index
        while place and starts[place - 1] > start:
            starts[place], ends[place] = starts[place - 1], ends[place - 1]
            place -= 1
        starts[place], ends[place] = start, end
    kept = min(count, 1)
    for index in range(1, count):
        if starts[index] <= ends[kept - 1]:
            ends[kept - 1] = max(ends[kept - 1], ends[index])
        else:
            starts[kept], ends[kept] = starts[index], ends[index]
            kept += 1
    return kept


@compiled
def _own(
    spells: Spells, place: int, client: int, since: float, until: float, starts: Floats, ends: Floats, count: int
) -> tuple[int, int]:
    """Add the spells of a client, which begin at a place, cut at a window; return the next place and the count."""
    while place < len(spells.who) and spells.who[place] == client:
        start, end = max(spells.starts[place], since), min(spells.ends[place], until)
        if start < end:
            starts[count], ends[count] = start, end
            count += 1
        place += 1
    return place, count


@compiled
def _networked(
    outings: _Outings, place: int, client: int, networks: int, since: float, until: float, starts: Floats, ends: Floats
) -> tuple[int, int]:
    """Note when a client, whose outings begin at a place, is where it has a network; return as `_own` does."""
    at_home, works, home_since, count = networks & AT_HOME != 0, networks & AT_WORK != 0, since, 0
    while place < len(outings.who) and outings.who[place] == client:
        leave, back = outings.leave[place], outings.back[place]
        if at_home and leave < back:
            if home_since < min(leave, until):
                starts[count], ends[count] = home_since, min(leave, until)
                count += 1
            home_since = max(home_since, back)
        start, end = max(outings.work_since[place], since), min(outings.work_until[place], until)
        if works and start < end:
            starts[count], ends[count] = start, end
            count += 1
        place += 1
    if at_home and home_since < until:
        starts[count], ends[count] = home_since, until
        count += 1
    return place, count


@compiled
def _lasting(
    charging: bool,
    networks: Ints,
    nights: Spells,
    top_ups: Spells,
    outings: _Outings,
    since: float,
    until: float,
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return when clients are on a charger, if that is required, with a network, failures left aside.

    `networks` (n,) says where each has one; where none is required, all have one at home, and there are no outings.
    """
    size = 4 * len(networks) + 16 * (int((until - since) / DAY) + 8)
    while True:
        who, starts, ends = np.empty(size, np.intp), np.empty(size), np.empty(size)
        found = _put_lasting(charging, networks, nights, top_ups, outings, since, until, who, starts, ends)
        if found <= size:
            return who[:found], starts[:found], ends[:found]
        size = found


@compiled
def _put_lasting(
    charging: bool,
    networks: Ints,
    nights: Spells,
    top_ups: Spells,
    outings: _Outings,
    since: float,
    until: float,
    who: NDArray[np.intp],
    starts: Floats,
    ends: Floats,
) -> int:
    """Put the times of `_lasting` into arrays as far as these reach; return how many there are."""
    most, found = 8 * (int((until - since) / DAY) + 8), 0  # of either in the window, and more than there are
    plugged_since, plugged_until = np.empty(most), np.empty(most)
    there_since, there_until = np.empty(most), np.empty(most)
    night, top_up, outing = 0, 0, 0
    for client in range(len(networks)):
        plugged_since[0], plugged_until[0], plugged = since, until, 1
        if charging:
            night, plugged = _own(nights, night, client, since, until, plugged_since, plugged_until, 0)
            top_up, plugged = _own(top_ups, top_up, client, since, until, plugged_since, plugged_until, plugged)
        outing, there = _networked(outings, outing, client, networks[client], since, until, there_since, there_until)
        plugged, there = _merged(plugged_since, plugged_until, plugged), _merged(there_since, there_until, there)
        one, other = 0, 0
        while one < plugged and other < there:
            start, end = max(plugged_since[one], there_since[other]), min(plugged_until[one], there_until[other])
            if start < end:
                if found < len(who):
                    who[found], starts[found], ends[found] = client, start, end
                found += 1
            if plugged_until[one] < there_until[other]:
                one += 1
            else:
                other += 1
    return found


@compiled
def _draw_events(
    clients: Clients, key: np.uint64, both: Spells, slots: Slots, begun: float, chances: Floats, reach: float
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return events that may touch some spells: who, start, and the draw of the length.

    `chances` (n, 24) or (1, 24) are those of each client, or of all, in a slot of each hour; `reach` is more than any
    event lasts.
    """
    size = 4 * len(both.who) + len(slots.begins)
    while True:
        who, starts, u = np.empty(size, np.intp), np.empty(size), np.empty(size)
        found = _put_events(clients, key, both, slots, begun, chances, reach, who, starts, u)
        if found <= size:
            return who[:found], starts[:found], u[:found]
        size = found


@compiled
def _put_events(
    clients: Clients,
    key: np.uint64,
    both: Spells,
    slots: Slots,
    begun: float,
    chances: Floats,
    reach: float,
    who: NDArray[np.intp],
    starts: Floats,
    u: Floats,
) -> int:
    """Put the events of `_draw_events` into arrays as far as these reach; return how many there are."""
    found, last, before, lots, word = 0, -1, -1, np.empty(len(slots.begins)), np.uint64(0)
    for spell in range(len(both.who)):
        place = both.who[spell]
        if place != before:
            before, last, word = place, -1, word_of(clients[place], key)
        begin = math.floor((both.starts[spell] - reach + begun) / SLOT) - 1 - slots.first
        end = math.floor((both.ends[spell] + begun) / SLOT) + 2 - slots.first
        begin, end = max(begin, last + 1, 0), min(end, len(lots))
        if begin >= end:
            continue
        last = end - 1
        for slot in range(begin, end):  # in a loop of its own this takes half of the time
            lots[slot] = uniform_at(word ^ slots.begin[slot])
        for slot in range(begin, end):
            chance = chances[place if len(chances) > 1 else 0, slots.hours[slot]]
            if lots[slot] < chance:
                if found < len(who):
                    who[found], starts[found] = place, slots.begins[slot] + SLOT * (lots[slot] / chance)
                    u[found] = uniform_at(word ^ slots.length[slot])
                found += 1
    return found


@compiled
def _without(both: Spells, failures: Spells, used: Spells) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return spells without two kinds of events; all are in the order of clients and starts."""
    size, found = len(both.who) + len(failures.who) + len(used.who), 0
    who, starts, ends = np.empty(size, np.intp), np.empty(size), np.empty(size)
    failure, use, before, free = 0, 0, -1, -np.inf
    for spell in range(len(both.who)):
        client, end = both.who[spell], both.ends[spell]
        if client != before:
            before, free = client, -np.inf
        now = max(both.starts[spell], free)
        while True:
            while failure < len(failures.who) and failures.who[failure] < client:
                failure += 1
            while use < len(used.who) and used.who[use] < client:
                use += 1
            begins, over = np.inf, -np.inf
            if failure < len(failures.who) and failures.who[failure] == client:
                begins, over = failures.starts[failure], failures.ends[failure]
            of_use = use < len(used.who) and used.who[use] == client and used.starts[use] < begins
            if of_use:
                begins, over = used.starts[use], used.ends[use]
            if begins >= end:
                break
            use, failure = use + of_use, failure + (not of_use)
            if begins < over:
                if now < begins:
                    who[found], starts[found], ends[found] = client, now, begins
                    found += 1
                now, free = max(now, over), max(free, over)
        if now < end:
            who[found], starts[found], ends[found] = client, now, end
            found += 1
    return who[:found], starts[:found], ends[:found]
