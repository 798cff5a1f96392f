"""Whether devices are on their chargers, and until when: each client's sessions of a few local days are remembered.

What a session is, is said in `charging`; the numbers here are the same, to the last bit, in a form that
works out one local day of many clients at a time: loops draw and compare, numpy turns the draws into times, since a
compiled logarithm need not round like numpy's. It holds only where no clock is changed some days before and after.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Floats, Mask
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.charging import (
    NIGHT_AT_MOST,
    TOP_UP_AT_MOST,
    TOP_UPS,
    evening,
    night_sessions,
    top_up_sessions,
    weekends,
)
from fedsim.availability.habits.draws import deviations, drawer, keys, uniform_at, word_of
from fedsim.availability.habits.persons import LIMIT, Draw, chance
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Charging

Keys: TypeAlias = NDArray[np.uint64]
_NIGHT, _LATER, _LONGER, _TOP_UP, _TOP_UP_WEEKEND = range(_COLUMNS := 5)
"""Columns of what belongs to a person: chance of a night's session, how much later and longer it is; of a top-up."""
_SINCE = 16  # added to the ordinals of days that are remembered, so that 0 stands for never
_OF_A_DAY = 1 + TOP_UPS
_KEPT = 3  # times on the charger that are kept of each client: hardly ever is a fourth one asked for on the same day
_CHUNK = 1 << 14  # clients whose day a thread works out at a time


class Plugged:
    """The charging of some clients.

    Parameters
    ----------
    charging
        The habits.
    members
        (n,) indices of the clients.
    draws
        The stream for availability.
    """

    def __init__(self, charging: Charging, members: Clients, draws: Stream) -> None:
        self._charging, self._draws = charging, draws
        clients = int(members.max(initial=0)) + 1
        night = charging.night
        off = LIMIT * (night.between_persons + night.between_days)
        usual = [evening(night.plug_in), evening(night.plug_in_weekend)]
        longest = max(night.length, night.length_weekend) + LIMIT * (
            night.length_between_persons + night.length_between_days
        )
        last = max(max(usual) + off + min(longest, NIGHT_AT_MOST), DAY + TOP_UP_AT_MOST)
        # Seconds after midnight, 0 or less, before which no session of a day begins: the day is taken to begin there.
        self._ahead = min(min(usual) - off, 0.0)
        self._days = math.ceil((last - self._ahead) / DAY)  # whose sessions may still go on, the present one included
        # Pages of these arrays that no client has needed take no memory.
        self._day = np.zeros(clients, dtype=np.int32)
        self._persons = np.zeros((clients, _COLUMNS))
        self._sessions = np.zeros((clients, self._days, 2 * _OF_A_DAY))  # starts, then ends
        self._spells = np.zeros((clients, 2 * _KEPT))  # since, until; since, until; ...
        self._begin(members)

    def _begin(self, members: Clients) -> None:
        """Set out with some members."""
        self._members = members
        self._today, self._asked = 0, 0  # the day now, and how many have been asked about

    def beside(self, members: Clients) -> "Plugged":
        """Return the charging of other members, who live by another clock; the arrays by client are shared."""
        other = copy(self)
        other._begin(members)
        return other

    def spell(self, clients: Clients, instant: float, clock: Civil) -> tuple[Floats, Floats]:
        """Return when the time on the charger that goes on, or the next one, begins and ends, cut at the horizon."""
        self._asked += len(clients)
        since, until, stale = _current(clients, self._spells, instant)
        if len(stale):
            some = clients[stale]
            self._refresh(some, instant, clock)
            since[stale], until[stale], _ = _current(some, self._spells, instant)
        return since, until

    def horizon(self, instant: float, clock: Civil) -> float:
        """Return the instant before which everything is known; later than the present one."""
        midnight = clock.midnight(np.array([clock.day(instant - self._ahead) + 1]))
        return max(float(clock.instant(midnight + self._ahead)[0]), math.nextafter(instant, math.inf))

    def _refresh(self, clients: Clients, instant: float, clock: Civil) -> None:
        today, horizon = clock.day(instant - self._ahead), self.horizon(instant, clock)
        if today != self._today:
            if self._today == today - 1 and 2 * self._asked > len(self._members):
                self._go_on(instant, today, horizon, clock)
                clients = clients[_current(clients, self._spells, instant)[2]]
            self._today, self._asked = today, 0
        missing = clients[self._day[clients] < today + _SINCE]
        if len(missing):
            self._work_out(missing, instant, today, clock)
        _put_together(clients, self._sessions, instant, horizon, self._spells)

    def _go_on(self, instant: float, today: int, horizon: float, clock: Civil) -> None:
        """Work out a day of all whose day before is known: most will be needed, and it is cheaper in one go."""

        def go_on(first: int) -> None:
            some = self._members[first : first + _CHUNK]
            some = some[self._day[some] == today - 1 + _SINCE]
            self._work_out(some, instant, today, clock)
            _put_together(some, self._sessions, instant, horizon, self._spells)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # every client is in one part
            list(threads.map(go_on, range(0, len(self._members), _CHUNK)))

    def _work_out(self, clients: Clients, instant: float, today: int, clock: Civil) -> None:
        """Write down the sessions of the local days up to today that may still go on, as far as that was not done."""
        self._meet(clients[self._day[clients] == 0])
        charging, days = self._charging, np.arange(today - self._days + 1, today + 1)
        weekend, before_weekend = weekends(days), weekends(days + 1)
        midnights = clock.midnight(days)
        nights, top_ups = _draw(
            clients,
            np.uint64(self._draws.key),
            today,
            _night_keys(today, self._days),
            _top_up_keys(today, self._days),
            np.where(weekend, _TOP_UP_WEEKEND, _TOP_UP),
            clock.instant(midnights + DAY) + TOP_UP_AT_MOST <= instant,
            self._day,
            self._persons,
            self._sessions,
        )
        night, (who, day, u, v) = charging.night, nights
        persons = self._persons.take(who, axis=0)
        later = persons[:, _LATER] + night.between_days * deviations(u)
        longer = persons[:, _LONGER] + night.length_between_days * deviations(v)
        starts, ends = night_sessions(night, before_weekend[day], midnights[day], later, longer, clock)
        _write(who, days[day] % self._days, np.zeros_like(day), starts, ends, self._sessions)
        who, day, number, u, v = top_ups
        starts, ends = top_up_sessions(charging.top_up, midnights[day], u, v, clock)
        _write(who, days[day] % self._days, 1 + number, starts, ends, self._sessions)

    def _meet(self, clients: Clients) -> None:
        """Write down what belongs to the persons who are met for the first time."""
        if not len(clients):
            return
        charging, night, top_up = self._charging, self._charging.night, self._charging.top_up
        words = drawer(clients, self._draws)
        score = words.normals(Draw.PROPENSITY)
        persons = np.empty((len(clients), _COLUMNS))
        persons[:, _NIGHT] = chance(night.chance, charging.spread, score)
        persons[:, _LATER] = night.between_persons * words.deviation(Draw.NIGHT_TIME_OF_PERSON)
        persons[:, _LONGER] = night.length_between_persons * words.deviation(Draw.NIGHT_LENGTH_OF_PERSON)
        persons[:, _TOP_UP] = chance(top_up.per_day / TOP_UPS, charging.spread, score)
        persons[:, _TOP_UP_WEEKEND] = chance(top_up.per_day_weekend / TOP_UPS, charging.spread, score)
        self._persons[clients] = persons


@lru_cache(maxsize=64)
def _night_keys(today: int, days: int) -> Keys:
    """Return the keys (days, 3) of whether a night's session takes place, when it starts, and how long it is."""
    draws = (Draw.NIGHT, Draw.NIGHT_TIME, Draw.NIGHT_LENGTH)
    return np.array([[keys(what, day)[0] for what in draws] for day in range(today - days + 1, today + 1)])


@lru_cache(maxsize=64)
def _top_up_keys(today: int, days: int) -> Keys:
    """Return the same keys (days, 3, 4) of the top-ups."""
    draws = (Draw.TOP_UP, Draw.TOP_UP_TIME, Draw.TOP_UP_LENGTH)
    return np.array([[keys(what, day, TOP_UPS) for what in draws] for day in range(today - days + 1, today + 1)])


@compiled
def _draw(
    clients: Clients,
    key: np.uint64,
    today: int,
    night: Keys,
    top_up: Keys,
    top_up_chance: Clients,
    top_ups_over: Mask,
    known: NDArray[np.int32],
    persons: Floats,
    sessions: Floats,
) -> tuple[tuple[Clients, Clients, Floats, Floats], tuple[Clients, Clients, Clients, Floats, Floats]]:
    """Draw whose sessions of which days take place, and clear the places of these days.

    Returns
    -------
    Of nights and of top-ups: client, day, for top-ups their number, and the draws of start and length.
    """
    days = len(night)
    most = len(clients) * days
    a_who, a_day, a_u, a_v = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), np.empty(most)
    most *= TOP_UPS
    b_who, b_day, b_number = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    b_u, b_v = np.empty(most), np.empty(most)
    nights, top_ups = 0, 0
    for client in clients:
        word = word_of(client, key)
        for day in range(max(known[client] - _SINCE - today + days, 0), days):
            sessions[client, (today - days + 1 + day) % days] = np.inf  # begins and ends never
            if uniform_at(word ^ night[day, 0]) < persons[client, _NIGHT]:
                a_who[nights], a_day[nights] = client, day
                a_u[nights], a_v[nights] = uniform_at(word ^ night[day, 1]), uniform_at(word ^ night[day, 2])
                nights += 1
            if top_ups_over[day]:  # whatever there was, it does not matter any more
                continue
            for number in range(TOP_UPS):
                if uniform_at(word ^ top_up[day, 0, number]) < persons[client, top_up_chance[day]]:
                    b_who[top_ups], b_day[top_ups], b_number[top_ups] = client, day, number
                    b_u[top_ups] = uniform_at(word ^ top_up[day, 1, number])
                    b_v[top_ups] = uniform_at(word ^ top_up[day, 2, number])
                    top_ups += 1
        known[client] = today + _SINCE
    return (
        (a_who[:nights], a_day[:nights], a_u[:nights], a_v[:nights]),
        (b_who[:top_ups], b_day[:top_ups], b_number[:top_ups], b_u[:top_ups], b_v[:top_ups]),
    )


@compiled
def _write(clients: Clients, rows: Clients, places: Clients, starts: Floats, ends: Floats, sessions: Floats) -> None:
    """Write down the sessions that are not empty."""
    for index in range(len(clients)):
        if starts[index] < ends[index]:
            own = sessions[clients[index], rows[index]]
            own[places[index]], own[places[index] + _OF_A_DAY] = starts[index], ends[index]


@compiled
def _put_together(clients: Clients, sessions: Floats, instant: float, horizon: float, spells: Floats) -> None:
    """Join the sessions that overlap or touch, and write down the first times on the charger that are not over."""
    starts, ends = np.empty(sessions.shape[1] * _OF_A_DAY), np.empty(sessions.shape[1] * _OF_A_DAY)
    for client in clients:
        count = 0
        for day in range(sessions.shape[1]):
            for place in range(_OF_A_DAY):
                end = sessions[client, day, _OF_A_DAY + place]
                if instant < end < np.inf:
                    starts[count], ends[count] = sessions[client, day, place], end
                    count += 1
        own, reach = spells[client], -np.inf
        for each in range(_KEPT):
            since = np.inf
            for index in range(count):
                if reach < starts[index] < since:
                    since = starts[index]
            before, reach = -np.inf, since
            while before < reach < np.inf:
                before = reach
                for index in range(count):
                    if starts[index] <= reach < ends[index]:
                        reach = ends[index]
            own[2 * each], own[2 * each + 1] = min(since, horizon), min(reach, horizon)


@compiled
def _current(clients: Clients, spells: Floats, instant: float) -> tuple[Floats, Floats, Clients]:
    """Return the time on the charger that goes on, or the next one; and the places of clients of whom none is known."""
    since, until, stale = np.empty(len(clients)), np.empty(len(clients)), np.empty(len(clients), np.int64)
    found = 0
    for index in range(len(clients)):
        own = spells[clients[index]]
        each = 1
        while each < 2 * _KEPT and own[each] <= instant:
            each += 2
        if each < 2 * _KEPT:
            since[index], until[index] = own[each - 1], own[each]
        else:
            stale[found] = index
            found += 1
    return since, until, stale[:found]
