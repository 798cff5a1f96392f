"""Many devices with habits at once: their conditions are swept over a window, or looked up at one instant."""

from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Possible, Spells, together
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.bursts import drop_outs, uses
from fedsim.availability.habits.connected import Connected
from fedsim.availability.habits.decided import OPEN, YES
from fedsim.availability.habits.persons import people
from fedsim.availability.habits.plugged import Plugged
from fedsim.availability.habits.possible import PossibleDays, reaches_too_far
from fedsim.availability.habits.sweep import meeting, meeting_at
from fedsim.availability.habits.troubled import Troubled
from fedsim.availability.habits.window import spells_within
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Habits

_WORTH, _LEFT = 4, 8
_CHUNK = 1 << 14  # clients whose spells are worked out at once
_STEADY = 6 * 86_400.0  # further than any session reaches from the day to which it belongs


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
    Where bounds of its times leave open whether a client is on a charger and on a network, that is looked up, and what
    is expensive to work out and holds for hours is remembered: sessions on the charger, the outing of the day, an
    instant before which one of these surely does not hold (`_shut`), and one until which both do (`_open`). Around a
    change of the clocks nothing is remembered. Of who was found available by bounds, they say until when both surely
    hold (`_sure`).

    Where so many are asked about in a day that it pays, it is worked out for all of them who may be available when.
    """

    foreseeable_s = DAY

    def __init__(self, habits: Habits, place: Place, members: Clients, draws: Stream) -> None:
        self._habits, self._place, self._draws = habits, place, draws
        clients = int(members.max(initial=0)) + 1
        self._shut, self._open, self._sure = np.zeros(clients), np.zeros(clients), np.zeros(clients)
        self._lasting: list[Plugged | Connected] = []
        self._troubled: list[Troubled] = []
        self._people = people(clients)
        self._plugged = self._connected = None
        if "charging" in habits.require:
            self._plugged = Plugged(habits.charging, members, draws, self._people)
        if "network" in habits.require:
            self._connected = Connected(habits.network, clients, draws, self._people)
        if self._plugged is not None:
            self._lasting.append(self._plugged)
        if self._connected is not None:
            self._lasting.append(self._connected)
            self._troubled.append(Troubled(drop_outs(habits.network), clients, draws))
        if "idle" in habits.require:
            self._troubled.insert(0, Troubled(uses(habits.idle), clients, draws))
        self._days = None
        if self._plugged is not None and not reaches_too_far(habits):
            self._days = PossibleDays(habits, members, draws, self._people, self._plugged, self._connected)
        self._begin(members)

    def _begin(self, members: Clients) -> None:
        """Set out with some members."""
        self._members, self._today, self._asked, self._many = members, 0, 0, False

    def elsewhere(self, place: Place, members: Clients) -> "HabitsBatch":
        """Return a batch of other members, with no larger indices, in another place.

        What is remembered by client is shared, so that many places take no more memory than one.
        """
        other = copy(self)
        other._place = place
        if self._plugged is not None:
            other._plugged = self._plugged.beside(members)
            other._lasting = [other._plugged if each is self._plugged else each for each in self._lasting]
            if self._days is not None:
                other._days = self._days.beside(members, other._plugged)
        other._begin(members)
        return other

    def possible(self, instant: float) -> Possible | None:
        """Look up who may be on a charger with a network, if many are asked about on this day, or were the day before.

        Working that out takes about as long as looking up one in `_WORTH`, and leaves one in `_LEFT` to look up.
        """
        if self._days is None:
            return None
        clock = self._place.clock(instant)
        today = clock.day(instant)
        if today != self._today:
            self._many = self._asked * (_WORTH * _LEFT if self._many else _WORTH) > len(self._members)
            self._today, self._asked = today, 0
        elif not self._many:
            self._many = self._asked * _WORTH > len(self._members)
        return self._days.at(instant, clock) if self._many else None

    def at(self, clients: Clients, instant: float) -> Mask:
        """Decide it by bounds, and look up what they leave open."""
        self._asked += len(clients)
        answer, clock = np.zeros(len(clients), dtype=np.bool_), self._place.clock(instant)
        if not _steady(clock, instant, instant):
            left = _not_before(clients, self._shut, instant)
            answer[left] = meeting_at(self._habits, clients[left], instant, self._place, self._draws)
            return answer
        if self._days is None:
            left = self._lasting_at(clients, instant, clock)
        else:
            known, surely = self._days.decided(clients, instant, clock)
            left, unknown = (known == YES).nonzero()[0], (known == OPEN).nonzero()[0]
            if len(unknown):
                surely[unknown] = instant
                left = np.concatenate([left, unknown[self._lasting_at(clients[unknown], instant, clock)]])
        for events in self._troubled:
            left = left[events.free(clients[left], instant, clock)]
        if self._days is not None:
            self._sure[clients[left]] = surely[left]
        answer[left] = True
        return answer

    def _lasting_at(self, clients: Clients, instant: float, clock: Civil) -> NDArray[np.intp]:
        """Return the places of the clients who are on a charger and on a network, as far as these are required."""
        left = _not_before(clients, self._shut, instant)
        some = clients[left]
        fails = (self._open[some] <= instant).nonzero()[0]
        if len(fails) and self._lasting:
            self._look_up(some[fails], instant, clock)
            left = left[self._shut[some] <= instant]
        return left

    def _look_up(self, clients: Clients, instant: float, clock: Civil) -> None:
        """Remember from when and until when the charger and the network are there."""
        ends = np.full(len(clients), np.inf)
        for condition in self._lasting:
            since, until = condition.spell(clients, instant, clock)
            self._shut[clients] = np.where(since > instant, since, instant)
            holds = (since <= instant).nonzero()[0]
            clients, ends = clients[holds], np.minimum(ends[holds], until[holds])
        self._open[clients] = ends

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Look for the first condition that ceases to hold."""
        clock = self._place.clock(instant)
        if not _steady(clock, instant, instant):
            return super().ends(clients, instant, until)
        found = np.full(len(clients), np.inf)
        for events in self._troubled:
            found = np.minimum(found, events.next_start(clients, instant, until, clock))
        if self._lasting:
            return self._with_lasting(clients, instant, until, found, clock)
        return found

    def _with_lasting(self, clients: Clients, instant: float, until: Floats, found: Floats, clock: Civil) -> Floats:
        """Return when the first condition ceases to hold, where `found` (n,) is that of short events."""
        some = np.arange(len(clients))
        if self._days is not None:
            limit, surely = np.minimum(until, found), self._sure[clients]
            some = (surely <= limit).nonzero()[0]
            if (surely[some] <= instant).any():
                known, surely = self._days.decided(clients[some], instant, clock)
                some = some[(known != YES) | (surely <= limit[some])]
        if not len(some):
            return found
        clients, until, own = clients[some], until[some], found[some]
        unknown = (self._open[clients] <= instant).nonzero()[0]
        if len(unknown):
            self._look_up(clients[unknown], instant, clock)
        ends = self._open[clients]
        own = np.where(ends <= np.minimum(until, own), ends, own)
        # Beyond the horizon only a sweep can tell.
        horizon = min(condition.horizon(instant, clock) for condition in self._lasting)
        far = ((ends >= horizon) & (own <= until) & (own == ends)).nonzero()[0]
        if len(far):
            own[far] = super().ends(clients[far], instant, until[far])
        found[some] = own
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Work them out from what takes place, or, around a change of the clocks, sweep over what begins and ends."""
        clock = self._place.clock(since)
        if not _steady(clock, since, until):
            return meeting(self._habits, self._habits.require, clients, since, until, self._place, self._draws)
        for condition in self._lasting:
            condition.meet(clients)
        parts = (
            (first, spells_within(self._habits, some, since, until, clock, self._people, self._draws))
            for first in range(0, len(clients), _CHUNK)
            if len(some := clients[first : first + _CHUNK])
        )
        return together(part._replace(who=part.who + first) for first, part in parts)


@compiled
def _not_before(clients: Clients, instants: Floats, now: float) -> Clients:
    """Return the places of the clients whose instant has come."""
    places, found = np.empty(len(clients), np.int64), 0
    for place in range(len(clients)):
        places[found] = place
        found += instants[clients[place]] <= now
    return places[:found]


def _steady(clock: Civil, since: float, until: float) -> bool:
    """Say whether no clock is changed from some days before to some days after."""
    near = clock.changes.searchsorted((since - _STEADY, until + _STEADY))
    return bool(near[0] == near[1])
