"""Short events of many devices at one instant: screen uses and failures of the network, looked up newest first.

What they are is said in `bursts`; the numbers here are the same, to the last bit.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Mask
from fedsim.availability.civil import Civil
from fedsim.availability.habits.bursts import PER_DAY, SLOT, Bursts
from fedsim.availability.habits.draws import keys_of_run, longer, uniform_at, word_of
from fedsim.common.arrays import Floats, Ints
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.population.members import propensity

Keys: TypeAlias = NDArray[np.uint64]


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
        (k,) local hours in which they begin, one after the other.
    of_hour
        (m,) place of each slot's hour in `hours`.
    """

    begins: Floats
    first: int
    last: int
    hours: Ints
    of_hour: NDArray[np.intp]


class Asked(NamedTuple):
    """What the loops need to know of the events of some clients in some slots.

    Attributes
    ----------
    clients, key
        (n,) who is asked about, and the key of the stream.
    begin, length
        (m,) the slots' parts of the keys of whether and when an event begins, and of how long it lasts.
    begins, of_hour
        (m,) as in `Slots`.
    chances
        (k, n) or (k, 1) chance of an event in a slot of each hour, of each client or of all.
    """

    clients: Clients
    key: np.uint64
    begin: Keys
    length: Keys
    begins: Floats
    of_hour: NDArray[np.intp]
    chances: Floats


class Troubled:
    """Events of one kind, of all clients below some index.

    Parameters
    ----------
    bursts
        The kind of event.
    clients
        One more than the largest index of a client.
    draws
        The stream for availability.
    """

    def __init__(self, bursts: Bursts, clients: int, draws: Stream) -> None:
        self._bursts, self._draws, self._shares = bursts, draws, bursts.shares
        self._of_person = np.zeros(clients if bursts.spread is not None and bursts.per_day > 0 else 0)

    def state(self, clients: Clients, instant: float, clock: Civil) -> tuple[Mask, Floats]:
        """Say of each device whether no event is going on, and if one is, until when at least."""
        until = np.full(len(clients), instant)
        bursts = self._bursts
        if bursts.per_day:
            first = int((instant - (bursts.longest + bursts.after) + clock.begun) // SLOT)
            slots = _slots(first, int((instant + clock.begun) // SLOT), clock)
            who, starts, u = _going(self._asked(clients, slots), instant, bursts.longest, bursts.after, until)
            ends = bursts.ends(starts, u)
            now = (instant < ends).nonzero()[0]
            until[who[now]] = ends[now]  # where several go on, any of them will do
        return until <= instant, until

    def next_start(self, clients: Clients, instant: float, until: Floats, clock: Civil) -> Floats:
        """Return the first start of an event after the instant, infinite if it is after `until` (n,)."""
        found = np.full(len(clients), np.inf)
        if self._bursts.per_day and len(clients):
            slots = _slots(int((instant + clock.begun) // SLOT), int((float(until.max()) + clock.begun) // SLOT), clock)
            who, starts, u = _beginning(self._asked(clients, slots), instant, until)
            some = starts < self._bursts.ends(starts, u)
            np.minimum.at(found, who[some], starts[some])
        return found

    def _asked(self, clients: Clients, slots: Slots) -> Asked:
        """Return what the loops need to know of some slots."""
        rates = self._rates(clients) * self._shares[slots.hours][:, None] / 3600.0
        chances: Floats = -np.expm1(-rates * SLOT)
        begin, length = (keys_of_run(what, slots.first, slots.last) for what in (self._bursts.begin, self._bursts.last))
        return Asked(clients, np.uint64(self._draws.key), begin, length, slots.begins, slots.of_hour, chances)

    def _rates(self, clients: Clients) -> Floats:
        """Return events a day of each person, or of all (1,)."""
        if self._bursts.spread is None:
            return np.array([self._bursts.per_day])
        rates = self._of_person[clients]
        new = (rates == 0.0).nonzero()[0]
        if len(new):
            rates[new] = self._bursts.of_person(propensity(clients[new], self._draws))
            self._of_person[clients[new]] = rates[new]
        return rates


@lru_cache(maxsize=256)
def _slots(first: int, last: int, clock: Civil) -> Slots:
    slots = np.arange(first, last + 1)
    begins = np.asarray(slots * SLOT - clock.begun, dtype=np.float64)
    of_slot = (clock.wall(begins) // 3600.0).astype(np.int64) % 24
    begins_hour = np.concatenate([[True], of_slot[1:] != of_slot[:-1]])
    hours, of_hour = of_slot[begins_hour], np.cumsum(begins_hour) - 1
    key = clock.first_day * PER_DAY
    return Slots(begins, first + key, last + key, hours, of_hour)


@compiled
def _start(asked: Asked, index: int, word: np.uint64, slot: int) -> float:
    """Return when the event of a slot begins, infinite if there is none; `word` is the client's part of the key."""
    chance = asked.chances[asked.of_hour[slot], index if asked.chances.shape[1] > 1 else 0]
    lot = uniform_at(word ^ asked.begin[slot])
    return asked.begins[slot] + SLOT * (lot / chance) if lot < chance else np.inf


@compiled
def _going(asked: Asked, instant: float, longest: float, after: float, until: Floats) -> tuple[Clients, Floats, Floats]:
    """Look for events that go on, the newest first.

    Whatever began within `after` goes on however short it is, so that it will do to note in `until` when that is over.
    Of earlier events those are returned that may be long enough: which of the clients, start, and draw of the length.
    """
    size = 64
    who, starts, u = np.empty(size, np.int64), np.empty(size), np.empty(size)
    found = 0
    for index in range(len(asked.clients)):
        word, kept = word_of(asked.clients[index], asked.key), found
        for slot in range(len(asked.begins) - 1, -1, -1):
            start = _start(asked, index, word, slot)
            if start <= instant < start + after:
                until[index], found = start + after, kept
                break
            if start <= instant < start + (longest + after):
                if found == size:
                    who, starts, u, size = longer(who), longer(starts), longer(u), 2 * size
                who[found], starts[found], u[found] = index, start, uniform_at(word ^ asked.length[slot])
                found += 1
    return who[:found], starts[:found], u[:found]


@compiled
def _beginning(asked: Asked, instant: float, until: Floats) -> tuple[Clients, Floats, Floats]:
    """Return the events that begin after an instant and not after `until`: who, start, and draw of the length."""
    size = 64
    who, starts, u = np.empty(size, np.int64), np.empty(size), np.empty(size)
    found = 0
    for index in range(len(asked.clients)):
        word = word_of(asked.clients[index], asked.key)
        for slot in range(len(asked.begins)):
            if asked.begins[slot] > until[index]:
                break
            start = _start(asked, index, word, slot)
            if instant < start <= until[index]:
                if found == size:
                    who, starts, u, size = longer(who), longer(starts), longer(u), 2 * size
                who[found], starts[found], u[found] = index, start, uniform_at(word ^ asked.length[slot])
                found += 1
    return who[:found], starts[:found], u[:found]
