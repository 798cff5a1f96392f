"""Which clients a cool-down keeps out, as bits, so that they need not be looked at one by one."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Ints
from fedsim.common.bits import discard, has, put, words_for
from fedsim.common.compiled import compiled
from fedsim.common.instants import FOREVER, MINUTE

_Clients: TypeAlias = NDArray[np.int32]
_DATES = 4096  # of a calendar; what is due later is looked at again when they have passed
_PART = 15 * MINUTE
_PER_PAGE = 15


class DueDates:
    """A calendar queue of clients; `kept` are those whose date has not come.

    `due` (N,) says when each client is due, and is read again later; a date is `per_date` of its units.

    The clients of a date are listed on pages, each of which begins with the number of the next one. All but the first
    page of a date are full; clients that are due at `FOREVER` or later are on none.
    """

    def __init__(self, due: Ints, per_date: int, now: int) -> None:
        self._due, self._per_date, self._today = due, per_date, now
        pages = len(due) // _PER_PAGE + _DATES + 1
        self._dates = np.zeros((_DATES, 2), dtype=np.int32)  # of each the first page, and how many are on it
        self._dates[:, 0] = -1
        self._pages = np.empty((pages, 1 + _PER_PAGE), dtype=np.int32)
        self._free = np.array((-1, 0), dtype=np.int32)  # the first page that is free again, and the first new one
        self.kept: Bits = np.zeros(words_for(len(due)), dtype=np.uint64)

    def add(self, clients: Ints) -> None:
        """Add clients (n,) whose date has not come; clients that are in already stay as they are."""
        _add(clients, self._due, self._per_date, self._today, self._dates, self._pages, self._free, self.kept)

    def go_to(self, now: int) -> None:
        """Remove the clients whose date has come."""
        if now > self._today:
            first = max(self._today + 1, now - _DATES + 1)
            _let_out(first, now, self._due, self._per_date, self._dates, self._pages, self._free, self.kept)
            self._today = now


class ExcludedClients:
    """The clients that a separation, or a cool-down of a quarter of an hour and more, keeps out.

    `free_round` and `free` (N,) say from which round and instant each client is let in, and are read again later.
    """

    def __init__(self, free_round: Ints, free: Ints, number: int, instant: int) -> None:
        self._by_round = DueDates(free_round, 1, number)
        self._by_time = DueDates(free, _PART, instant // _PART)
        self._bits: Bits = np.empty_like(self._by_round.kept)
        self.add(np.arange(len(free_round)))

    def add(self, clients: Ints, by_clock: bool = True) -> None:
        """Add clients (n,) by the round that lets them in, and by the instant where that is asked for."""
        self._by_round.add(clients)
        if by_clock:
            self._by_time.add(clients)

    def with_impossible(self, possible: Bits, number: int, instant: int) -> Bits:
        """Return the clients that are kept out or not possible; the next call writes over it."""
        self._by_round.go_to(number)
        self._by_time.go_to(instant // _PART)
        _either(possible, self._by_round.kept, self._by_time.kept, self._bits)
        return self._bits


@compiled
def _either(possible: Bits, one: Bits, other: Bits, bits: Bits) -> None:
    for word in range(len(bits)):
        bits[word] = ~possible[word] | one[word] | other[word]


@compiled
def _put_down(client: int, date: int, dates: NDArray[np.int32], pages: NDArray[np.int32], free: _Clients) -> None:
    own = dates[date % len(dates)]
    if own[0] < 0 or own[1] == _PER_PAGE:
        page = free[0]
        if page < 0:
            page = free[1]
            free[1] += 1
        else:
            free[0] = pages[page, 0]
        pages[page, 0] = own[0]
        own[0], own[1] = page, 0
    own[1] += 1
    pages[own[0], own[1]] = client


@compiled
def _add(
    clients: Ints,
    due: Ints,
    per_date: int,
    now: int,
    dates: NDArray[np.int32],
    pages: NDArray[np.int32],
    free: _Clients,
    kept: Bits,
) -> None:
    for client in clients:
        date = due[client] // per_date
        if date > now and not has(kept, client):
            put(kept, client)
            if due[client] < FOREVER:
                _put_down(client, date, dates, pages, free)


@compiled
def _let_out(
    first: int,
    now: int,
    due: Ints,
    per_date: int,
    dates: NDArray[np.int32],
    pages: NDArray[np.int32],
    free: _Clients,
    kept: Bits,
) -> None:
    later = np.empty(_PER_PAGE, np.int64)
    for each in range(first, now + 1):
        page, count = dates[each % len(dates)]
        dates[each % len(dates), 0] = -1
        while page >= 0:
            own = pages[page]
            for place in range(count):  # in a loop of its own, so that cache misses overlap
                later[place] = due[own[1 + place]]
            for place in range(count):
                client, date = own[1 + place], later[place] // per_date
                if date <= now:
                    discard(kept, client)
                elif later[place] < FOREVER:
                    _put_down(client, date, dates, pages, free)
            after = own[0]
            own[0], free[0] = free[0], page
            page, count = after, _PER_PAGE
