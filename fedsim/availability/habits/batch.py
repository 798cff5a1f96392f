"""Many devices with habits at once: their conditions are swept over a window, or looked up at one instant."""

from copy import copy

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Spells
from fedsim.availability.civil import Civil
from fedsim.availability.habits.bursts import drop_outs, uses
from fedsim.availability.habits.connected import Connected
from fedsim.availability.habits.plugged import Plugged
from fedsim.availability.habits.sweep import meeting, meeting_at
from fedsim.availability.habits.troubled import Troubled
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Habits

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
    What is expensive to work out and holds for hours is remembered for each client: sessions on the charger, the
    outing of the day, an instant before which the client is surely not available (`_shut`), and one until which it
    stays on the charger and on the network (`_open`). Around a change of the clocks nothing is remembered.
    """

    def __init__(self, habits: Habits, place: Place, members: Clients, draws: Stream) -> None:
        self._habits, self._place, self._draws = habits, place, draws
        clients = int(members.max(initial=0)) + 1
        self._shut, self._open = np.zeros(clients), np.zeros(clients)
        self._lasting: list[Plugged | Connected] = []
        self._troubled: list[Troubled] = []
        if "charging" in habits.require:
            self._lasting.append(Plugged(habits.charging, members, draws))
        if "network" in habits.require:
            self._lasting.append(Connected(habits.network, clients, draws))
            self._troubled.append(Troubled(drop_outs(habits.network), clients, draws))
        if "idle" in habits.require:
            self._troubled.insert(0, Troubled(uses(habits.idle), clients, draws))

    def elsewhere(self, place: Place, members: Clients) -> "HabitsBatch":
        """Return a batch of other members, with no larger indices, in another place.

        What is remembered by client is shared, so that many places take no more memory than one.
        """
        other = copy(self)
        other._place = place
        other._lasting = [each.beside(members) if isinstance(each, Plugged) else each for each in self._lasting]
        return other

    def at(self, clients: Clients, instant: float) -> Mask:
        """Look it up, for those that are not known to be shut."""
        answer = np.zeros(len(clients), dtype=np.bool_)
        left = _not_before(clients, self._shut, instant)
        clock = self._place.clock(instant)
        if not _steady(clock, instant):
            answer[left] = meeting_at(self._habits, clients[left], instant, self._place, self._draws)
            return answer
        some = clients[left]
        fails = (self._open[some] <= instant).nonzero()[0]
        if len(fails) and self._lasting:
            self._look_up(some[fails], instant, clock)
            left = left[self._shut[some] <= instant]
        for events in self._troubled:
            some = clients[left]
            free, until = events.state(some, instant, clock)
            fails = (~free).nonzero()[0]
            self._shut[some[fails]] = until[fails]
            left = left[free]
        answer[left] = True
        return answer

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
        if not _steady(clock, instant):
            return super().ends(clients, instant, until)
        found = np.full(len(clients), np.inf)
        for events in self._troubled:
            found = np.minimum(found, events.next_start(clients, instant, until, clock))
        if self._lasting:
            unknown = (self._open[clients] <= instant).nonzero()[0]
            if len(unknown):
                self._look_up(clients[unknown], instant, clock)
            ends = self._open[clients]
            found = np.where(ends <= np.minimum(until, found), ends, found)
            # Beyond the horizon only a sweep can tell.
            horizon = min(condition.horizon(instant, clock) for condition in self._lasting)
            far = ((ends >= horizon) & (found <= until) & (found == ends)).nonzero()[0]
            if len(far):
                found[far] = super().ends(clients[far], instant, until[far])
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Sweep over what begins and ends."""
        return meeting(self._habits, self._habits.require, clients, since, until, self._place, self._draws)


@compiled
def _not_before(clients: Clients, instants: Floats, now: float) -> Clients:
    """Return the places of the clients whose instant has come."""
    places, found = np.empty(len(clients), np.int64), 0
    for place in range(len(clients)):
        places[found] = place
        found += instants[clients[place]] <= now
    return places[:found]


def _steady(clock: Civil, instant: float) -> bool:
    """Say whether no clock is changed some days before and after."""
    near = clock.changes.searchsorted((instant - _STEADY, instant + _STEADY))
    return bool(near[0] == near[1])
