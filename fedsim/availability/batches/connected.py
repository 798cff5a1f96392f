"""Whether devices are at home or at work with a network there, and until when: each client's day is remembered.

What an outing is, is said in `availability.network`; the numbers here are the same, to the last bit. Failures of the
network are not looked at. It holds only where no clock is changed some days before and after.
"""

import math

import numpy as np

from fedsim.availability.batches.base import Clients, Floats
from fedsim.availability.batches.draws import Drawer, drawer
from fedsim.availability.charging import weekends
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.persons import Draw, chance
from fedsim.keyed import Stream
from fedsim.scenario.habits import Network

_SINCE = 16  # added to the ordinals of days that are remembered, so that 0 stands for never


class Connected:
    """The whereabouts of all clients below some index.

    Parameters
    ----------
    network
        The habits.
    clients
        One more than the largest index of a client.
    draws
        The stream for availability.
    """

    def __init__(self, network: Network, clients: int, draws: Stream) -> None:
        self._network, self._draws = network, draws
        self._day = np.zeros(clients, dtype=np.int32)
        self._home = np.zeros(clients, dtype=np.bool_)
        self._work = np.zeros(clients, dtype=np.bool_)
        self._persons = np.zeros((clients, 2))
        self._changes = np.zeros((clients, 4))  # leaves home, is back, comes to work, leaves work

    def spell(self, clients: Clients, instant: float, clock: Civil) -> tuple[Floats, Floats]:
        """Return when the time with a network that goes on, or the next one, begins and ends, cut at midnight.

        At home until leaving, at work in between, at home again: times that touch are put together.
        """
        today = clock.day(instant)
        stale = clients[self._day[clients] != today + _SINCE]
        if len(stale):
            self._work_out(stale, today, clock)
        midnight = self.horizon(instant, clock)
        home, work = self._home[clients], self._work[clients]
        never = ~(home | work)
        # `take` copies whole rows, where indexing goes value by value.
        leaves, back, work_since, work_until = self._changes.take(clients, axis=0).T.copy()
        work &= work_since < work_until
        work_since[~work], work_until[~work], leaves[~home], back[~home] = np.inf, -np.inf, -np.inf, np.inf
        work_ends = np.where(back <= work_until, midnight, work_until)
        leaves = np.where(work_since <= leaves, work_ends, np.where(back <= leaves, midnight, leaves))
        at_work = instant < work_ends
        since = np.where(at_work, work_since, np.minimum(back, midnight))
        until = np.where(at_work, work_ends, midnight)
        early = instant < leaves
        since[early], until[early] = -np.inf, leaves[early]
        since[never] = until[never] = np.inf
        return since, until

    def horizon(self, instant: float, clock: Civil) -> float:
        """Return the instant before which everything is known; later than the present one."""
        midnight = float(clock.instant(clock.midnight(np.array([clock.day(instant) + 1])))[0])
        return max(midnight, math.nextafter(instant, math.inf))

    def _work_out(self, clients: Clients, day: int, clock: Civil) -> None:
        """Write down one local day."""
        network, keys = self._network, drawer(clients, self._draws)
        new = np.flatnonzero(self._day[clients] == 0)
        if len(new):
            self._meet(clients[new], keys.of(new))
        self._day[clients] = day + _SINCE
        days = np.array([day])
        usual = network.weekend if bool(weekends(days)[0]) else network.weekday
        midnight = clock.midnight(days)
        self._changes[clients] = clock.instant(midnight)  # whoever stays is away for no time
        out = np.flatnonzero(keys.uniforms(Draw.OUTING, day) < usual.chance)
        clients, keys = clients[out], keys.of(out)
        persons = self._persons.take(clients, axis=0)
        leave = usual.leave + (persons[:, 0] + network.between_days * keys.deviation(Draw.LEAVE, day))
        back = usual.back + (persons[:, 1] + network.between_days * keys.deviation(Draw.BACK, day))
        leave, back = np.clip(leave, 0.0, DAY), np.clip(back, 0.0, DAY)
        back = np.maximum(back, leave)
        if usual is network.weekend:
            work_since = work_until = leave
        else:
            work_until = np.maximum(back - network.commute, leave)
            work_since = np.minimum(leave + network.commute, work_until)
        changes = clock.instant(midnight + np.column_stack([leave, back, work_since, work_until]))
        self._changes[clients] = changes

    def _meet(self, clients: Clients, keys: Drawer) -> None:
        """Write down what belongs to the persons who are met for the first time."""
        network = self._network
        score = keys.normals(Draw.PROPENSITY)
        self._home[clients] = keys.uniforms(Draw.HOME) < chance(network.home, network.spread, score)
        self._work[clients] = keys.uniforms(Draw.WORK) < chance(network.work, network.spread, score)
        self._persons[clients, 0] = network.between_persons * keys.deviation(Draw.LEAVE_OF_PERSON)
        self._persons[clients, 1] = network.between_persons * keys.deviation(Draw.BACK_OF_PERSON)
