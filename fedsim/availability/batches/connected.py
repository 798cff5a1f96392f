"""Whether devices are at home or at work with a network there, and until when: each client's day is remembered.

What an outing is, is said in `availability.network`; the numbers here are the same, to the last bit. Failures of the
network are not looked at. It holds only where no clock is changed some days before and after.
"""

import numpy as np

from fedsim.availability.batches.base import Clients, Floats, Mask
from fedsim.availability.batches.draws import Drawer, drawer
from fedsim.availability.charging import weekends
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.persons import Draw, chance
from fedsim.keyed import Stream
from fedsim.scenario.habits import Network

_NEVER = -(2**31)


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
        self._day = np.full(clients, _NEVER, dtype=np.int32)
        self._home = np.zeros(clients, dtype=np.bool_)
        self._work = np.zeros(clients, dtype=np.bool_)
        self._persons = np.zeros((clients, 2))
        self._changes = np.zeros((clients, 4))  # leaves home, is back, comes to work, leaves work

    def state(self, clients: Clients, instant: float, clock: Civil) -> tuple[Mask, Floats]:
        """Say of each client whether there is a network, and until when at least that stays so."""
        today = clock.day(instant)
        stale = clients[self._day[clients] != today]
        if len(stale):
            self._work_out(stale, today, clock)
        home, work, changes = self._home[clients], self._work[clients], self._changes[clients].T.copy()
        passed = changes <= instant
        holds = (home & ~(passed[0] & ~passed[1])) | (work & (passed[2] & ~passed[3]))
        midnight = float(clock.instant(clock.midnight(np.array([today + 1])))[0])
        until = np.where(passed, midnight, changes).min(axis=0)
        until[~(home | work)] = np.inf  # no network ever
        return holds, until

    def _work_out(self, clients: Clients, day: int, clock: Civil) -> None:
        """Write down one local day."""
        network, keys = self._network, drawer(clients, self._draws)
        new = np.flatnonzero(self._day[clients] == _NEVER)
        if len(new):
            self._meet(clients[new], keys.of(new))
        self._day[clients] = day
        days = np.array([day])
        usual = network.weekend if bool(weekends(days)[0]) else network.weekday
        commute = 0.0 if usual is network.weekend else network.commute
        persons = self._persons[clients]
        out = keys.uniforms(Draw.OUTING, day) < usual.chance
        leave = usual.leave + (persons[:, 0] + network.between_days * keys.deviation(Draw.LEAVE, day))
        back = usual.back + (persons[:, 1] + network.between_days * keys.deviation(Draw.BACK, day))
        leave, back = np.clip(leave, 0.0, DAY), np.clip(back, 0.0, DAY)
        back = np.where(out, np.maximum(back, leave), leave)
        if usual is network.weekend:
            work_since = work_until = leave
        else:
            work_until = np.maximum(back - commute, leave)
            work_since = np.minimum(leave + commute, work_until)
        midnight = clock.midnight(days)
        for place, times in enumerate((leave, back, work_since, work_until)):
            self._changes[clients, place] = clock.instant(midnight + times)

    def _meet(self, clients: Clients, keys: Drawer) -> None:
        """Write down what belongs to the persons who are met for the first time."""
        network = self._network
        score = keys.normals(Draw.PROPENSITY)
        self._home[clients] = keys.uniforms(Draw.HOME) < chance(network.home, network.spread, score)
        self._work[clients] = keys.uniforms(Draw.WORK) < chance(network.work, network.spread, score)
        self._persons[clients, 0] = network.between_persons * keys.deviation(Draw.LEAVE_OF_PERSON)
        self._persons[clients, 1] = network.between_persons * keys.deviation(Draw.BACK_OF_PERSON)
