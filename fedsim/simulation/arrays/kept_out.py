"""Which clients a cool-down surely keeps out, as bits, so that nobody has to look at them one by one."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.bits import has, put, remove, words_for
from fedsim.common.compiled import compiled

Clients: TypeAlias = NDArray[np.int32]
_DATES = 4096  # of a calendar; what is due later is looked at again when they have passed
_PART_S = 900.0
_NEVER = 1 << 60
_EVERYONE = ~np.uint64(0)


class Calendar:
    """Clients with a date each, which are let out when it has come.

    Parameters
    ----------
    clients
        How many there are.
    now
        The present date.

    Attributes
    ----------
    kept
        The clients whose date has not come.
    """

    def __init__(self, clients: int, now: int) -> None:
        self._now = now
        self._heads = np.full(_DATES, -1, dtype=np.int32)  # the first client of each date
        self._next = np.empty(clients, dtype=np.int32)  # and who follows after each
        self.kept: Bits = np.zeros(words_for(clients), dtype=np.uint64)

    def add(self, clients: Ints, dates: Ints) -> None:
        """Put clients (n,) with their dates (n,) down; dates that have come are left out, and who is there stays."""
        _add(clients, dates, self._now, self._heads, self._next, self.kept)

    def go_to(self, now: int, dates: Ints | Floats, per_date: float) -> None:
        """Let out whose date has come, given when each client (N,) is due and how much of that makes a date."""
        if now > self._now:
            first = max(self._now + 1, now - len(self._heads) + 1)
            _let_out(first, now, dates, per_date, self._heads, self._next, self.kept)
            self._now = now


class KeptOut:
    """The clients that a separation, or a cool-down of a quarter of an hour and more, keeps out.

    Parameters
    ----------
    free_round, free_s
        (N,) from which round, and from which instant, each client is let in; they are looked at again and again.
    number, now_s
        The present round and instant.
    """

    def __init__(self, free_round: Ints, free_s: Floats, number: int, now_s: float) -> None:
        self._free_round, self._free_s = free_round, free_s
        self._by_round = Calendar(len(free_round), number)
        self._by_time = Calendar(len(free_s), int(now_s // _PART_S))
        self._bits: Bits = np.empty_like(self._by_round.kept)
        self.add(np.arange(len(free_round)))

    def add(self, clients: Ints) -> None:
        """Take note of when clients (n,) are let in."""
        self._by_round.add(clients, self._free_round[clients])
        self._by_time.add(clients, (self._free_s[clients] // _PART_S).clip(max=_NEVER).astype(np.int64))

    def with_impossible(self, possible: Bits, number: int, now_s: float) -> Bits:
        """Return who is kept out, and who is not among those that are possible; the next call writes over it."""
        self._by_round.go_to(number, self._free_round, 1.0)
        self._by_time.go_to(int(now_s // _PART_S), self._free_s, _PART_S)
        np.bitwise_xor(possible, _EVERYONE, out=self._bits)
        self._bits |= self._by_round.kept
        self._bits |= self._by_time.kept
        return self._bits


@compiled
def _add(clients: Ints, dates: Ints, now: int, heads: Clients, following: Clients, kept: Bits) -> None:
    for place in range(len(clients)):
        client, date = clients[place], dates[place]
        if date > now and not has(kept, client):
            put(kept, client)
            if date < _NEVER:
                following[client] = heads[date % len(heads)]
                heads[date % len(heads)] = client


@compiled
def _let_out(
    first: int, now: int, dates: Ints | Floats, per_date: float, heads: Clients, following: Clients, kept: Bits
) -> None:
    for each in range(first, now + 1):
        client = heads[each % len(heads)]
        heads[each % len(heads)] = -1
        while client >= 0:
            after, due = following[client], dates[client] // per_date
            if due >= _NEVER:
                pass
            elif int(due) > now:
                following[client] = heads[int(due) % len(heads)]
                heads[int(due) % len(heads)] = client
            else:
                remove(kept, client)
            client = after
