"""Whether devices are on their chargers, and until when: each client's sessions of a few local days are remembered.

What a session is, is said in `availability.charging`; the numbers here are the same, to the last bit, in a form that
works out one local day of many clients at a time. It holds only where no clock is changed some days before and after.
"""

import math
from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import lengths
from fedsim.availability.batches.base import Clients, Floats
from fedsim.availability.batches.draws import Drawer, drawer, keys
from fedsim.availability.charging import NIGHT_AT_MOST, TOP_UP_AT_MOST, TOP_UPS, evening, weekends
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.persons import LIMIT, Draw, chance
from fedsim.keyed import Stream
from fedsim.scenario.habits import Charging

_SINCE = 16  # added to the ordinals of days that are remembered, so that 0 stands for never
_OF_A_DAY = 1 + TOP_UPS
_CHUNK = 4_096  # clients whose sessions fit into a processor's cache


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
        self._persons = np.zeros((clients, 5))
        self._sessions = np.zeros((clients, self._days, 2 * _OF_A_DAY))  # starts, then ends
        self._since = np.zeros(clients)
        self._until = np.zeros(clients)
        self._begin(members)

    def _begin(self, members: Clients) -> None:
        """Set out with some members."""
        self._members = members
        together = len(members) > 0 and int(members[-1] - members[0]) == len(members) - 1
        self._first = int(members[0]) if together else None
        self._today, self._asked = 0, 0  # the day now, and how often it has been looked up

    def beside(self, members: Clients) -> "Plugged":
        """Return the charging of other members, who live by another clock; the arrays by client are shared."""
        other = copy(self)
        other._begin(members)
        return other

    def spell(self, clients: Clients, instant: float, clock: Civil) -> tuple[Floats, Floats]:
        """Return when the time on the charger that goes on, or the next one, begins and ends, cut at the horizon."""
        until = self._until[clients]
        stale = (until <= instant).nonzero()[0]
        if len(stale):
            self._refresh(clients[stale], instant, clock)
            until[stale] = self._until[clients[stale]]
        return self._since[clients], until

    def horizon(self, instant: float, clock: Civil) -> float:
        """Return the instant before which everything is known; later than the present one."""
        midnight = clock.midnight(np.array([clock.day(instant - self._ahead) + 1]))
        return max(float(clock.instant(midnight + self._ahead)[0]), math.nextafter(instant, math.inf))

    def _refresh(self, clients: Clients, instant: float, clock: Civil) -> None:
        today, horizon = clock.day(instant - self._ahead), self.horizon(instant, clock)
        if today != self._today:
            if self._today == today - 1 and 2 * self._asked > len(self._members):
                self._go_on(instant, today, horizon, clock)
                clients = clients[self._until[clients] <= instant]
            self._today, self._asked = today, 0
        self._asked += len(clients)
        known = self._day[clients] - _SINCE
        for back in range(self._days - 1, -1, -1):  # the earliest first; a day's place is taken by the same one later
            missing = clients[known < today - back]
            if len(missing):
                self._work_out(missing, missing, today - back, clock)
        for first in range(0, len(clients), _CHUNK):
            self._stretch(clients[first : first + _CHUNK], instant, horizon)

    def _go_on(self, instant: float, today: int, horizon: float, clock: Civil) -> None:
        """Work out a day of all whose day before is known: most will be needed, and it is cheaper in one go."""
        for first in range(0, len(self._members), _CHUNK):
            some = self._members[first : first + _CHUNK]
            before = self._day[some] == today - 1 + _SINCE
            where: Clients | slice = some[before]
            if self._first is not None and before.all():
                where = slice(self._first + first, self._first + first + len(some))
            self._work_out(some[before], where, today, clock)
            self._stretch(where, instant, horizon)

    def _stretch(self, where: Clients | slice, instant: float, horizon: float) -> None:
        """Put together the sessions that overlap or touch."""
        # One row for each session, so that numpy compares along the clients.
        starts, ends = _rows(self._sessions, where).reshape(-1, self._days, 2, _OF_A_DAY).transpose(2, 1, 3, 0)
        starts, ends = starts.reshape(self._days * _OF_A_DAY, -1), ends.reshape(self._days * _OF_A_DAY, -1)
        since = np.where(ends > instant, starts, np.inf).min(axis=0)
        reach = np.maximum(since, instant)
        reach = np.maximum(reach, np.where(starts <= reach, ends, -np.inf).max(axis=0, initial=-np.inf))
        growing = np.arange(len(reach))
        while len(growing):
            further = np.where(starts <= reach[growing], ends, -np.inf).max(axis=0)
            more = (further > reach[growing]).nonzero()[0]
            growing, starts, ends = growing[more], starts[:, more], ends[:, more]
            reach[growing] = further[more]
        self._since[where], self._until[where] = np.minimum(since, horizon), np.minimum(reach, horizon)

    def _work_out(self, clients: Clients, where: Clients | slice, day: int, clock: Civil) -> None:
        """Write down the sessions of one local day; `where` addresses the same clients."""
        words = drawer(clients, self._draws)
        self._meet(clients, words)
        self._day[where] = day + _SINCE
        persons = _rows(self._persons, where)
        sessions = np.full((2 * _OF_A_DAY, len(clients)), np.inf)  # what does not take place begins never
        who, begin, end = self._night(words, persons, day, clock)
        sessions[0, who], sessions[_OF_A_DAY, who] = begin, end
        who, number, begin, end = self._top_ups(words, persons, day, clock)
        sessions[1 + number, who], sessions[_OF_A_DAY + 1 + number, who] = begin, end
        self._sessions[where, day % self._days] = sessions.T

    def _meet(self, clients: Clients, words: Drawer) -> None:
        """Write down what belongs to the persons who are met for the first time."""
        new = (self._day[clients] == 0).nonzero()[0]
        if not len(new):
            return
        charging, night, top_up, words = self._charging, self._charging.night, self._charging.top_up, words.of(new)
        score = words.normals(Draw.PROPENSITY)
        self._persons[clients[new]] = np.column_stack(
            [
                chance(night.chance, charging.spread, score),
                night.between_persons * words.deviation(Draw.NIGHT_TIME_OF_PERSON),
                night.length_between_persons * words.deviation(Draw.NIGHT_LENGTH_OF_PERSON),
                chance(top_up.per_day / TOP_UPS, charging.spread, score),
                chance(top_up.per_day_weekend / TOP_UPS, charging.spread, score),
            ]
        )

    def _night(self, words: Drawer, persons: Floats, day: int, clock: Civil) -> tuple[NDArray[np.intp], Floats, Floats]:
        night, days = self._charging.night, np.array([day])
        who = np.flatnonzero(words.uniforms(Draw.NIGHT, day) < persons[:, 0])
        words, persons = words.of(who), persons.take(who, axis=0)
        weekend = bool(weekends(days + 1)[0])
        usual = evening(night.plug_in_weekend if weekend else night.plug_in)
        later = persons[:, 1] + night.between_days * words.deviation(Draw.NIGHT_TIME, day)
        starts = clock.instant(clock.midnight(days) + usual + later)
        longer = persons[:, 2] + night.length_between_days * words.deviation(Draw.NIGHT_LENGTH, day)
        length = np.minimum(
            np.maximum((night.length_weekend if weekend else night.length) + longer, 0.0), NIGHT_AT_MOST
        )
        ends = starts + length
        return who, np.where(ends > starts, starts, np.inf), ends

    def _top_ups(
        self, words: Drawer, persons: Floats, day: int, clock: Civil
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
        top_up, days = self._charging.top_up, np.array([day])
        chances = persons[:, 4 if bool(weekends(days)[0]) else 3]
        lots = words.table(keys(Draw.TOP_UP, day, TOP_UPS))
        who, number = np.nonzero(lots < chances[:, None])
        cumulative = np.concatenate([[0.0], np.cumsum(top_up.by_hour)]) / sum(top_up.by_hour)
        u = words.each(who, keys(Draw.TOP_UP_TIME, day, TOP_UPS)[number])
        starts = clock.instant(clock.midnight(days) + np.interp(u, cumulative, np.arange(25) * 3600.0))
        v = words.each(who, keys(Draw.TOP_UP_LENGTH, day, TOP_UPS)[number])
        ends = starts + np.minimum(lengths.lengths(top_up.length, v), TOP_UP_AT_MOST)
        return who, number, np.where(ends > starts, starts, np.inf), ends


def _rows(array: Floats, where: Clients | slice) -> Floats:
    # `take` copies whole rows, where indexing goes value by value.
    return array[where] if isinstance(where, slice) else array.take(where, axis=0)
