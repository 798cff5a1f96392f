"""Many devices with habits at once: looked up at one instant by bounds of their times, or worked out over a window."""

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Possible, Spells, together
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.bounds import BoundsOfDays
from fedsim.availability.habits.bursts import drop_outs, uses
from fedsim.availability.habits.decided import NO, OPEN, YES, decided
from fedsim.availability.habits.people import People
from fedsim.availability.habits.possible import PossibleDays, reaches_too_far
from fedsim.availability.habits.sweep import meeting, meeting_at
from fedsim.availability.habits.troubled import Troubled
from fedsim.availability.habits.window import lasting_within, spells_within
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Habits

_WORTH, _LEFT = 4, 8
_CHUNK = 1 << 14  # clients whose spells are worked out at once
_STEADY = 6 * DAY  # further than any session reaches from the day to which it belongs
_RIGHT = 300 * DAY  # for so long a clock is right


class HabitsBatch(Batch):
    """Devices with one set of habits in one place.

    Parameters
    ----------
    habits
        The habits.
    place
        When simulated time begins, and the devices' time zone.
    members
        (n,) indices of the devices.
    draws
        The stream for availability.

    Notes
    -----
    Where bounds of its times leave open whether a client is on a charger and on a network, that is worked out exactly,
    and so is the end of that time, where it may come before that of a session: until when both surely hold is
    remembered (`_sure`) of who was found available. Around a change of the clocks bounds leave more open, and what they
    do is swept over, which takes longer.

    Where so many are asked about in a day that it pays, it is worked out for all of them who may be available when.
    """

    foreseeable_s = DAY

    def __init__(self, habits: Habits, place: Place, members: Clients, draws: Stream) -> None:
        self._habits, self._draws = habits, draws
        self._charging, self._networked = "charging" in habits.require, "network" in habits.require
        clients = int(members.max(initial=0)) + 1
        self._people = People(habits, clients, draws)
        self._sure = np.zeros(clients)
        self._troubled: list[Troubled] = []
        if "idle" in habits.require:
            self._troubled.append(Troubled(uses(habits.idle), self._people.uses, draws))
        if self._networked:
            failures = drop_outs(habits.network)
            self._troubled.append(Troubled(failures, np.array([failures.per_day]), draws))
        self._too_far = self._charging and reaches_too_far(habits)
        known = self._charging and not self._too_far
        self._days = PossibleDays(habits, members, draws, self._people) if known else None
        self._begin(place, members)

    def _begin(self, place: Place, members: Clients) -> None:
        """Set out with some members."""
        self._place, self._members, self._today, self._asked, self._many = place, members, 0, 0, False
        self._clock: _Clock | None = None
        self._bounds = BoundsOfDays(self._habits)

    def elsewhere(self, place: Place, members: Clients) -> "HabitsBatch":
        """Return a batch of other members, with no larger indices, in another place.

        What is remembered by client is shared, so that many places take no more memory than one.
        """
        other = copy(self)
        if self._days is not None:
            other._days = self._days.beside(members)
        other._begin(place, members)
        return other

    def possible(self, instant: float) -> Possible | None:
        """Look up who may be on a charger with a network, if many are asked about on this day, or were the day before.

        Working that out takes about as long as looking up one in `_WORTH`, and leaves one in `_LEFT` to look up.
        """
        if self._days is None:
            return None
        clock = self._clock_at(instant).civil
        today = clock.day(instant)
        if today != self._today:
            self._many = self._asked * (_WORTH * _LEFT if self._many else _WORTH) > len(self._members)
            self._today, self._asked = today, 0
        elif not self._many:
            self._many = self._asked * _WORTH > len(self._members)
        return self._days.at(instant, clock, self._bounds) if self._many else None

    def at(self, clients: Clients, instant: float) -> Mask:
        """Decide it by bounds, and work out what they leave open."""
        self._asked += len(clients)
        clock = self._clock_at(instant)
        self._meet(clients)
        left = np.arange(len(clients))
        if self._many:  # most who are asked about are on a charger
            left = self._untroubled(clients, left, instant, clock.civil)
        known, surely = self.decided(clients[left], instant)
        unknown = (known == OPEN).nonzero()[0]
        if len(unknown):
            known[unknown], surely[unknown] = NO, instant
            known[unknown[self._exactly(clients[left[unknown]], instant, clock)]] = YES
        there = (known == YES).nonzero()[0]
        left = left[there]
        self._sure[clients[left]] = surely[there]
        if not self._many:
            left = self._untroubled(clients, left, instant, clock.civil)
        answer = np.zeros(len(clients), dtype=np.bool_)
        answer[left] = True
        return answer

    def _exactly(self, clients: Clients, instant: float, clock: "_Clock") -> NDArray[np.intp]:
        """Return the places of the clients who are on a charger with a network, as far as required.

        Those whom a short event troubles may be left out.
        """
        if clock.steady:
            return self._lasting(clients, instant, float(np.nextafter(instant, np.inf))).who
        return meeting_at(self._habits, clients, instant, self._place, self._draws).nonzero()[0]

    def _untroubled(self, clients: Clients, left: NDArray[np.intp], instant: float, clock: Civil) -> NDArray[np.intp]:
        """Return which of some places are those of clients whom no short event troubles."""
        for events in self._troubled:
            left = left[events.free(clients[left], instant, clock)]
        return left

    def decided(self, clients: Clients, instant: float) -> tuple[NDArray[np.int8], Floats]:
        """Say whether clients (n,) are on a charger with a network, and of those who are, until when they surely are.

        Both as far as they are required, and screen uses and failures left aside: `YES`, `NO`, or `OPEN` where bounds
        leave it open.
        """
        self._meet(clients)
        clock = self._clock_at(instant).civil
        day, now = clock.day_and_time(instant)
        yesterday, today = (self._bounds.of(each, clock) for each in (day - 1, day))
        if self._too_far or yesterday is None or today is None:
            return np.full(len(clients), OPEN, dtype=np.int8), np.full(len(clients), instant)
        key, people = np.uint64(self._draws.key), self._people.columns
        known, until = decided(clients, key, now, yesterday, today, people, self._charging, self._networked)
        until += instant - now
        return known, until

    def _lasting(self, clients: Clients, since: float, until: float) -> Spells:
        """Return when clients are on a charger with a network, as far as required, and no clock is changed nearby."""
        civil, key = self._clock_at(since).civil, np.uint64(self._draws.key)
        return lasting_within(self._habits, clients, since, until, civil, self._people.columns, key)

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Look for the first condition that ceases to hold."""
        clock = self._clock_at(instant)
        self._meet(clients)
        found = np.full(len(clients), np.inf)
        for events in self._troubled:
            found = np.minimum(found, events.next_start(clients, instant, until, clock.civil))
        limit, surely = np.minimum(until, found), self._sure[clients]
        some = (surely <= limit).nonzero()[0]
        if (surely[some] <= instant).any():
            known, surely = self.decided(clients[some], instant)
            some = some[(known != YES) | (surely <= limit[some])]
        if not len(some) or not (self._charging or self._networked):
            return found
        if clock.steady:
            horizon = float(np.nextafter(limit[some].max(), np.inf))
            who, starts, ends = self._lasting(clients[some], instant, horizon)
            now = ((starts <= instant) & (ends <= limit[some[who]])).nonzero()[0]
            found[some[who[now]]] = ends[now]
        else:
            found[some] = np.minimum(found[some], super().ends(clients[some], instant, until[some]))
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Work them out from what takes place, or, around a change of the clocks, sweep over what begins and ends."""
        clock = self._place.clock(since)
        if not _steady(clock, since, until):
            return meeting(self._habits, self._habits.require, clients, since, until, self._place, self._draws)
        self._people.meet(clients)
        parts = (
            (first, spells_within(self._habits, some, since, until, clock, self._people.columns, self._draws))
            for first in range(0, len(clients), _CHUNK)
            if len(some := clients[first : first + _CHUNK])
        )
        return together(part._replace(who=part.who + first) for first, part in parts)

    def _meet(self, clients: Clients) -> None:
        if self._days is None or not self._days.met_all:
            self._people.meet(clients)

    def _clock_at(self, instant: float) -> "_Clock":
        """Return the clock at an instant; the last one, where it will do."""
        clock = self._clock
        if clock is None or not clock.since <= instant < clock.until:
            clock = self._clock = _clock_at(self._place.clock(instant), instant)
        return clock


class _Clock(NamedTuple):
    """A clock that is right from `since` to `until`; `steady` says that none is changed some days before and after."""

    civil: Civil
    steady: bool
    since: float
    until: float


def _clock_at(civil: Civil, instant: float) -> _Clock:
    """Return the clock at an instant, with the time around it in which the same can be said of it."""
    edges = np.sort(np.concatenate([civil.changes - _STEADY, civil.changes + _STEADY]))
    edges = np.concatenate([[instant - _RIGHT], edges[np.abs(edges - instant) < _RIGHT], [instant + _RIGHT]])
    later = int(np.searchsorted(edges, instant, side="right"))
    return _Clock(civil, _steady(civil, instant, instant), float(edges[later - 1]), float(edges[later]))


def _steady(clock: Civil, since: float, until: float) -> bool:
    """Say whether no clock is changed from some days before to some days after."""
    near = clock.changes.searchsorted((since - _STEADY, until + _STEADY))
    return bool(near[0] == near[1])
