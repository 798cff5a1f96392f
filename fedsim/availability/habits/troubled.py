"""Short events of many devices at one instant: screen uses and failures of the network, looked up newest first.

What they are is said in `bursts`; the numbers here are the same, to the last bit.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Mask
from fedsim.availability.civil import Civil
from fedsim.availability.habits.blocks import SIZE
from fedsim.availability.habits.bounds import MARGIN, bounded, lengths_by_draw
from fedsim.availability.habits.bursts import SLOT, Bursts, Slots, slots_between
from fedsim.availability.habits.decided import NO, OPEN, YES
from fedsim.availability.habits.persons import Draw
from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.bits import first_of
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.common.keyed_loops import uniform_at, word_of

_ROUNDED = 1e-12  # relative, far more than a chance is ever rounded by
_RUN, _BEYOND = 4096, 512  # slots that are worked out together, and how far a question that begins there may reach


class Asked(NamedTuple):
    """What the loops need to know of the events of some clients in some slots.

    Attributes
    ----------
    clients, key
        (n,) who is asked about, and the key of the stream.
    slots, first, last
        Slots, and the places in them of the first and the last that are looked at.
    shares
        (24,) part of a day's events that falls into a slot of each hour.
    rates
        (N,) or (1,) events a day of every client, whether asked about or not, or of all.
    """

    clients: Clients
    key: np.uint64
    slots: Slots
    first: int
    last: int
    shares: Floats
    rates: Floats


class Troubled:
    """Events of one kind, of all clients.

    Parameters
    ----------
    bursts
        The kind of event.
    rates
        (N,) or (1,) events a day of each client, or of all; those of the clients that are asked about are known.
    draws
        The stream for availability.
    """

    def __init__(self, bursts: Bursts, rates: Floats, draws: Stream) -> None:
        self._bursts, self._rates, self._draws = bursts, rates, draws
        self._shares = bursts.shares * (SLOT / 3600.0)
        self._lengths = lengths_by_draw(bursts.law, bursts.longest)

    def free(self, clients: Clients, instant: float, clock: Civil) -> Mask:
        """Say of each device whether no event is going on."""
        bursts = self._bursts
        if not bursts.per_day or not len(clients):
            return np.ones(len(clients), dtype=np.bool_)
        asked = self._asked(clients, instant - (bursts.longest + bursts.after), instant, clock)
        going = _surely_going(asked, instant, bursts.after, self._lengths)
        left = (going == OPEN).nonzero()[0]
        if len(left):
            asked = asked._replace(clients=clients[left])
            who, starts, ends = self._events(asked, _near(asked, -math.inf, np.full(len(left), instant)))
            going[left] = NO
            going[left[who[(starts <= instant) & (instant < ends)]]] = YES
        answer: Mask = going == NO
        return answer

    def next_start(self, clients: Clients, instant: float, until: Floats, clock: Civil) -> Floats:
        """Return the first start of an event after the instant, infinite if it is after `until` (n,)."""
        found = np.full(len(clients), np.inf)
        if self._bursts.per_day and len(clients):
            asked = self._asked(clients, instant, float(until.max()), clock)
            near = _near(asked, instant, until)
            if len(near[0]):
                who, starts, ends = self._events(asked, near)
                real = (instant < starts) & (starts <= until[who]) & (starts < ends)
                np.minimum.at(found, who[real], starts[real])
        return found

    def _asked(self, clients: Clients, since: float, until: float, clock: Civil) -> Asked:
        first, last = int((since + clock.begun) // SLOT), int((until + clock.begun) // SLOT)
        slots, key = _slots(self._bursts, first, last, clock), np.uint64(self._draws.key)
        return Asked(clients, key, slots, first - slots.first, last - slots.first, self._shares, self._rates)

    def _events(self, asked: Asked, near: "_Near") -> tuple[Clients, Floats, Floats]:
        """Return which of some events take place: whose, their starts and ends, exactly."""
        who, slots, lots, u = near
        rates = self._rates[asked.clients[who]] if len(self._rates) > 1 else self._rates
        chances = -np.expm1(-(rates * self._bursts.shares[asked.slots.hours[slots]] / 3600.0) * SLOT)
        starts = asked.slots.begins[slots] + SLOT * (lots / chances)
        real = (lots < chances).nonzero()[0]
        who, starts = who[real], starts[real]
        return who, starts, self._bursts.ends(starts, u[real])


def _slots(bursts: Bursts, first: int, last: int, clock: Civil) -> Slots:
    """Return slots with those from the first to the last in them."""
    run = first // _RUN
    if last < (run + 1) * _RUN + _BEYOND:
        return _run(bursts.begin, bursts.last, run, clock)
    return slots_between(bursts.begin, bursts.last, first, last, clock)


@lru_cache(maxsize=64)
def _run(begin: Draw, length: Draw, run: int, clock: Civil) -> Slots:
    return slots_between(begin, length, run * _RUN, (run + 1) * _RUN + _BEYOND, clock)


@compiled
def _surely_going(asked: Asked, instant: float, after: float, lengths: Floats) -> NDArray[np.int8]:
    """Say of each client whether an event goes on, as far as that is decided by times that are right but for rounding.

    `lengths` is the table of the lengths.
    """
    found, slots = np.empty(len(asked.clients), np.int8), asked.slots
    words, rates, hits = np.zeros(SIZE, np.uint64), np.zeros(SIZE), np.empty(SIZE, np.uint64)
    shares, hours = asked.shares, slots.hours
    for begin in range(0, len(asked.clients), SIZE):
        count = _fill(asked, begin, words, rates)
        found[begin : begin + count] = NO
        for last in range(asked.last, asked.first - 1, -64):  # the newest first, by words of as many slots
            hits[:] = 0
            for slot in range(last, max(last - 64, asked.first - 1), -1):
                share = shares[hours[slot]]
                _hit(words, rates, slots.begin[slot], share, np.uint64(1) << np.uint64(last - slot), hits)
            for place in range(count):
                left, known = hits[place], found[begin + place]
                while left and known != YES:
                    slot = last - first_of(left)
                    left &= left - np.uint64(1)
                    lot, rate = uniform_at(words[place] ^ slots.begin[slot]), rates[place] * shares[hours[slot]]
                    since = instant - slots.begins[slot]
                    # It has begun, if there is one, and 1 - exp(-x) is more than x - x^2 / 2.
                    if SLOT + MARGIN < since < after - MARGIN and lot < rate * (1.0 - 0.5 * rate):
                        known = YES
                        continue
                    least, most = bounded(lengths, uniform_at(words[place] ^ slots.length[slot]))
                    if since > SLOT + after + most + MARGIN:
                        continue
                    chance = -math.expm1(-rate)
                    start = slots.begins[slot] + SLOT * (lot / chance)
                    if lot > chance * (1.0 + _ROUNDED) or start > instant + MARGIN:
                        continue
                    sure = lot < chance * (1.0 - _ROUNDED) and start <= instant - MARGIN
                    if sure and instant < start + after + max(least, 0.0) - MARGIN:
                        known = YES
                    elif instant < start + after + most + MARGIN:
                        known = OPEN
                found[begin + place] = known
    return found


@compiled
def _fill(asked: Asked, begin: int, words: Bits, rates: Floats) -> int:
    """Put in the parts of the key and the rates of the clients from a place on; return how many there is room for."""
    count, alike = min(SIZE, len(asked.clients) - begin), len(asked.rates) == 1
    for place in range(count):
        client = asked.clients[begin + place]
        words[place], rates[place] = word_of(client, asked.key), asked.rates[0 if alike else client]
    return count


@compiled
def _hit(words: Bits, rates: Floats, key: np.uint64, share: float, bit: np.uint64, hits: Bits) -> None:
    """Set a bit of those of whom an event may begin in a slot: the chance of one is less than its rate."""
    for place in range(SIZE):  # in a loop of its own, for many at a time
        hits[place] |= bit if uniform_at(words[place] ^ key) < rates[place] * share else np.uint64(0)


_Near = tuple[Clients, Ints, Floats, Floats]
"""Events that may take place: whose, in which slot; the draws of whether and when, and of the length."""


@compiled
def _near(asked: Asked, since: float, until: Floats) -> _Near:
    """Return the events that may begin after an instant and not after `until` (n,)."""
    size = 64 + len(asked.clients) // 4
    while True:
        who, where, lots, u = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size), np.empty(size)
        found = _put_near(asked, since, until, who, where, lots, u)
        if found <= size:
            return who[:found], where[:found], lots[:found], u[:found]
        size = found


@compiled
def _put_near(asked: Asked, since: float, until: Floats, who: Clients, where: Ints, lots: Floats, u: Floats) -> int:
    """Put the events of `_near` into arrays as far as these reach; return how many there are."""
    found, slots, shares, hours = 0, asked.slots, asked.shares, asked.slots.hours
    words, rates, hits = np.zeros(SIZE, np.uint64), np.zeros(SIZE), np.empty(SIZE, np.uint64)
    for begin in range(0, len(asked.clients), SIZE):
        count = _fill(asked, begin, words, rates)
        latest = until[begin : begin + count].max()
        for first in range(asked.first, asked.last + 1, 64):
            hits[:] = 0
            for slot in range(first, min(first + 64, asked.last + 1)):
                if slots.begins[slot] <= latest:
                    share = shares[hours[slot]]
                    _hit(words, rates, slots.begin[slot], share, np.uint64(1) << np.uint64(slot - first), hits)
            for place in range(count):
                left, ends = hits[place], until[begin + place]
                while left:
                    slot = first + first_of(left)
                    left &= left - np.uint64(1)
                    lot, most = uniform_at(words[place] ^ slots.begin[slot]), rates[place] * shares[hours[slot]]
                    start = slots.begins[slot] + SLOT * (lot / -math.expm1(-most))
                    if since - MARGIN < start < ends + MARGIN:
                        if found < len(who):
                            who[found], where[found] = begin + place, slot
                            lots[found], u[found] = lot, uniform_at(words[place] ^ slots.length[slot])
                        found += 1
    return found
