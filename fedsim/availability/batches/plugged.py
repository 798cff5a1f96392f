"""Whether devices are on their chargers, and until when: each client's sessions of a few local days are remembered.

What a session is, is said in `availability.charging`; the numbers here are the same, to the last bit, in a form that
works out one local day of many clients at a time. It holds only where no clock is changed some days before and after.
"""

import math
from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import lengths
from fedsim.availability.batches.base import Clients, Floats, Mask
from fedsim.availability.batches.draws import Drawer, drawer, keys
from fedsim.availability.charging import NIGHT_AT_MOST, TOP_UP_AT_MOST, TOP_UPS, evening, weekends
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.persons import LIMIT, Draw, chance
from fedsim.keyed import Stream
from fedsim.scenario.habits import Charging

_NEVER = -(2**31)
_OF_A_DAY = 1 + TOP_UPS
_CHUNK = 8_192


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
        self._charging, self._draws, self._members = charging, draws, members
        clients = int(members.max(initial=0)) + 1
        self._today, self._worked = _NEVER, 0  # the day now, and how many clients' days have been worked out in it
        night = charging.night
        off = LIMIT * (night.between_persons + night.between_days)
        usual = [evening(night.plug_in), evening(night.plug_in_weekend)]
        longest = max(night.length, night.length_weekend) + LIMIT * (
            night.length_between_persons + night.length_between_days
        )
        last = max(max(usual) + off + min(longest, NIGHT_AT_MOST), DAY + TOP_UP_AT_MOST)
        self.ahead = min(min(usual) - off, 0.0)
        """Seconds after midnight, 0 or less, before which no session of a day begins."""
        self.days = math.ceil(last / DAY)
        """Local days, the present one included, whose sessions may still go on."""
        # Pages of these arrays that no client has needed take no memory.
        self._day = np.full(clients, _NEVER, dtype=np.int32)
        self._persons = np.zeros((clients, 5))
        self._sessions = np.zeros((clients, 2, self.days * _OF_A_DAY))  # starts, ends
        self._on = np.zeros(clients, dtype=np.bool_)
        self._until = np.zeros(clients)

    def beside(self, members: Clients) -> "Plugged":
        """Return the charging of other members, who live by another clock; the arrays by client are shared."""
        other = copy(self)
        other._members, other._today, other._worked = members, _NEVER, 0
        return other

    def state(self, clients: Clients, instant: float, clock: Civil) -> tuple[Mask, Floats]:
        """Say of each client whether it is on its charger, and until when at least that stays so."""
        until = self._until[clients]
        stale = np.flatnonzero(until <= instant)
        if len(stale):
            self._refresh(clients[stale], instant, clock)
            until[stale] = self._until[clients[stale]]
        return self._on[clients], until

    def _refresh(self, clients: Clients, instant: float, clock: Civil) -> None:
        today = clock.day(instant)
        if today != self._today:
            self._begin(today, clock)
        known = self._day[clients]
        for back in range(self.days - 1, -1, -1):  # the earliest first; a day's place is taken by the same one later
            missing = clients[known < today - back]
            if len(missing):
                self._work_out(missing, today - back, clock)
        # One row for each session, so that numpy compares along the clients.
        starts, ends = self._sessions[clients].transpose(1, 2, 0).copy()
        on = ((starts <= instant) & (instant < ends)).any(axis=0)
        # Off: until the next start. On: until the end of the last session of those that overlap or touch.
        until = np.where(starts > instant, starts, np.inf).min(axis=0)
        some = np.flatnonzero(on)
        starts, ends = starts[:, some], ends[:, some]
        reach = np.full(len(some), instant)
        while True:
            further = np.where(starts <= reach, ends, instant).max(axis=0)
            if (further <= reach).all():
                break
            reach = np.maximum(reach, further)
        until[some] = reach
        horizon = float(clock.instant(clock.midnight(np.array([today + 1])) + self.ahead)[0])
        self._on[clients], self._until[clients] = on, np.minimum(until, horizon)

    def _begin(self, today: int, clock: Civil) -> None:
        """Begin a local day: if most clients were needed yesterday, work out all, which is cheaper in one go."""
        if self._today == today - 1 and 2 * self._worked > len(self._members):
            for first in range(0, len(self._members), _CHUNK):
                some = self._members[first : first + _CHUNK]
                some = some[self._day[some] == today - 1]
                self._work_out(some, today, clock)
        self._today, self._worked = today, 0

    def _work_out(self, clients: Clients, day: int, clock: Civil) -> None:
        """Write down the sessions of one local day."""
        words = drawer(clients, self._draws)
        self._meet(clients, words)
        self._day[clients] = day
        self._worked += len(clients)
        persons = self._persons[clients]
        sessions = np.full((len(clients), 2, _OF_A_DAY), np.inf)  # what does not take place begins never
        sessions[:, 0, 0], sessions[:, 1, 0] = self._night(words, persons, day, clock)
        who, number, begin, end = self._top_ups(words, persons, day, clock)
        sessions[who, 0, 1 + number], sessions[who, 1, 1 + number] = begin, end
        first = (day % self.days) * _OF_A_DAY
        self._sessions[clients, :, first : first + _OF_A_DAY] = sessions

    def _meet(self, clients: Clients, words: Drawer) -> None:
        """Write down what belongs to the persons who are met for the first time."""
        new = np.flatnonzero(self._day[clients] == _NEVER)
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

    def _night(self, words: Drawer, persons: Floats, day: int, clock: Civil) -> tuple[Floats, Floats]:
        night, days = self._charging.night, np.array([day])
        weekend = bool(weekends(days + 1)[0])
        usual = evening(night.plug_in_weekend if weekend else night.plug_in)
        later = persons[:, 1] + night.between_days * words.deviation(Draw.NIGHT_TIME, day)
        starts = clock.instant(clock.midnight(days) + usual + later)
        longer = persons[:, 2] + night.length_between_days * words.deviation(Draw.NIGHT_LENGTH, day)
        length = np.minimum(
            np.maximum((night.length_weekend if weekend else night.length) + longer, 0.0), NIGHT_AT_MOST
        )
        takes_place = (words.uniforms(Draw.NIGHT, day) < persons[:, 0]) & (starts + length > starts)
        return np.where(takes_place, starts, np.inf), starts + length

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
