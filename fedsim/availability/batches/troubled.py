"""Short events of many devices at one instant: screen uses and failures of the network, looked up newest first.

What they are is said in `availability.bursts`; the numbers here are the same, to the last bit.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import lengths
from fedsim.availability.batches.base import Clients, Floats, Mask
from fedsim.availability.batches.draws import Drawer, drawer, keys_of_run
from fedsim.availability.bursts import PER_DAY, SLOT
from fedsim.availability.civil import Civil
from fedsim.availability.idle import USE_AT_MOST
from fedsim.availability.network import DROP_OUT_AT_MOST
from fedsim.availability.persons import Draw
from fedsim.keyed import Stream
from fedsim.scenario.habits import Idle, Network


@dataclass(frozen=True)
class Slots:
    """Consecutive slots of five minutes.

    Attributes
    ----------
    begins
        (m,) instants at which they begin.
    first, last
        Numbers of the first and the last, as keys of draws.
    hours
        (k,) local hours in which they begin.
    of_hour
        (m,) place of each slot's hour in `hours`.
    """

    begins: Floats
    first: int
    last: int
    hours: NDArray[np.int64]
    of_hour: NDArray[np.intp]


class Troubled:
    """Events of one kind, of all clients below some index.

    Parameters
    ----------
    begin, length
        Keys of the draws that say whether and when an event begins, and how long it lasts.
    per_day
        Events on a day of 24 hours, on average over all persons.
    by_hour
        Relative weights of the hours.
    law, longest, after
        Law of the lengths, where they are cut, and what is added.
    spread
        How much persons differ; None where all are alike.
    clients
        One more than the largest index of a client.
    draws
        The stream for availability.
    """

    def __init__(
        self,
        begin: Draw,
        length: Draw,
        per_day: float,
        by_hour: list[float],
        law: lengths.Law,
        longest: float,
        after: float,
        spread: float | None,
        clients: int,
        draws: Stream,
    ) -> None:
        self._begin, self._length, self._law = begin, length, law
        self._longest, self._after, self._spread, self._draws = longest, after, spread, draws
        self._per_day, self._shares = per_day, np.array(by_hour) / sum(by_hour)
        self._of_person = np.zeros(clients if spread is not None and per_day > 0 else 0)

    def state(self, clients: Clients, instant: float, clock: Civil) -> tuple[Mask, Floats]:
        """Say of each device whether no event is going on, and if one is, until when at least."""
        free, until = np.ones(len(clients), dtype=np.bool_), np.full(len(clients), instant)
        if not self._per_day:
            return free, until
        newest = int((instant + clock.begun) // SLOT)
        oldest = int((instant - (self._longest + self._after) + clock.begun) // SLOT)
        # Whatever began within `after` still counts, however short it was: these slots decide most cases.
        recent = max(oldest, int((instant - self._after + clock.begun) // SLOT) + 1)
        words, left = drawer(clients, self._draws), np.arange(len(clients))
        for first, last in ((recent, newest), (oldest, min(recent - 1, newest))):
            if last < first or not len(left):
                continue
            who, starts, ends = self._events(clients[left], words.of(left), _slots(first, last, clock))
            now = ((starts <= instant) & (instant < ends)).nonzero()[0]
            hit = left[who[now]]
            free[hit] = False
            until[hit] = ends[now]  # where several go on, any of them will do
            left = left[free[left]]
        return free, until

    def next_start(self, clients: Clients, instant: float, until: Floats, clock: Civil) -> Floats:
        """Return the first start of an event after the instant, infinite if it is after `until` (n,)."""
        found = np.full(len(clients), np.inf)
        if self._per_day and len(clients):
            first = int((instant + clock.begun) // SLOT)
            last = int((float(until.max()) + clock.begun) // SLOT)
            slots = _slots(first, last, clock)
            who, starts, ends = self._events(clients, drawer(clients, self._draws), slots)
            some = (starts > instant) & (starts < ends)
            np.minimum.at(found, who[some], starts[some])
            found[found > until] = np.inf
        return found

    def _events(self, clients: Clients, words: Drawer, slots: Slots) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Return the events that begin in some slots: which of the clients, start and end."""
        rates = self._rates(clients, words)[:, None] * self._shares[slots.hours] / 3600.0
        chances: Floats = -np.expm1(-rates * SLOT)
        chances = chances[:, slots.of_hour] if len(slots.hours) > 1 else chances
        lots = words.table(keys_of_run(self._begin, slots.first, slots.last))
        who, which = (lots < chances).nonzero()
        of_event = chances[who if len(chances) > 1 else 0, which if chances.shape[1] > 1 else 0]
        starts = slots.begins[which] + SLOT * (lots[who, which] / of_event)
        u = words.each(who, keys_of_run(self._length, slots.first, slots.last)[which])
        return who, starts, starts + (np.minimum(lengths.lengths(self._law, u), self._longest) + self._after)

    def _rates(self, clients: Clients, words: Drawer) -> Floats:
        """Return events a day of each person, or of all (1,)."""
        if self._spread is None:
            return np.array([self._per_day])
        rates = self._of_person[clients]
        new = (rates == 0.0).nonzero()[0]
        if len(new):
            score = words.of(new).normals(Draw.PROPENSITY)
            rates[new] = self._per_day * np.exp(-self._spread * score - self._spread**2 / 2)
            self._of_person[clients[new]] = rates[new]
        return rates


@lru_cache(maxsize=256)
def _slots(first: int, last: int, clock: Civil) -> Slots:
    slots = np.arange(first, last + 1)
    begins = np.asarray(slots * SLOT - clock.begun, dtype=np.float64)
    of_slot = (clock.wall(begins) // 3600.0).astype(np.int64) % 24
    hours, of_hour = np.unique(of_slot, return_inverse=True)
    key = clock.first_day * PER_DAY
    return Slots(begins, first + key, last + key, hours, of_hour)


def used(idle: Idle, clients: int, draws: Stream) -> Troubled:
    """Return the screen uses."""
    law, rate = idle.use, idle.uses_per_day
    return Troubled(
        Draw.USE, Draw.USE_LENGTH, rate, idle.by_hour, law, USE_AT_MOST, idle.settle, idle.spread, clients, draws
    )


def failing(network: Network, clients: int, draws: Stream) -> Troubled:
    """Return the failures of the network."""
    law, rate = network.drop_outs.length, 24.0 * network.drop_outs.per_hour
    return Troubled(
        Draw.DROP_OUT, Draw.DROP_OUT_LENGTH, rate, [1.0] * 24, law, DROP_OUT_AT_MOST, 0.0, None, clients, draws
    )
