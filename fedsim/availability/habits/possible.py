"""Which devices may be on a charger with a network in a part of a day at all: worked out for everybody in one go."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsim.availability.batch import Clients, Possible
from fedsim.availability.civil import Civil
from fedsim.availability.habits.days import Calendar
from fedsim.availability.habits.kernel import PARTS, possible_parts
from fedsim.availability.habits.persons import Persons
from fedsim.common.arrays import Bits
from fedsim.common.bits import transpose_all, words_for

_AT_ONCE = 1 << 16  # clients of a thread


class PossibleDays:
    """One local day after the other, cut into parts, with those who may be on a charger with a network in each.

    Screen uses and failures of the network are left aside, so some who are not available are among them. `members` (n,)
    are in ascending order; `require` are the conditions that must hold, charging among them.
    """

    def __init__(self, members: Clients, persons: Persons, require: int, calendar: Calendar) -> None:
        self._members, self._persons, self._require, self._calendar = members, persons, require, calendar
        self._rows: Bits = np.zeros((PARTS, 0), dtype=np.uint64)
        self._begin, self._part = 0, 0

    def at(self, instant: int, clock: Civil) -> Possible:
        """Return who may be available from an instant on."""
        if not self._begin <= instant < self._begin + PARTS * self._part:
            self._go_to(clock.day(instant), clock)
        part = (instant - self._begin) // self._part
        return Possible(self._rows[part], self._begin + (part + 1) * self._part)

    def _go_to(self, day: int, clock: Civil) -> None:
        """Work out a local day."""
        begin, until = clock.instant(clock.midnight(np.array([day, day + 1]))).tolist()
        self._begin, self._part = begin, -(-(until - begin) // PARTS)
        known = self._calendar.known(begin, until, clock, self._persons)
        bits = np.zeros(PARTS * words_for(int(self._members.max(initial=0)) + 1), dtype=np.uint64)

        def some(first: int) -> None:
            clients = self._members[first : first + _AT_ONCE]
            self._persons.know(clients)
            bits[clients] = possible_parts(clients, begin, self._part, self._require, known)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # no client is in two of them
            list(threads.map(some, range(0, len(self._members), _AT_ONCE)))
        self._rows = transpose_all(bits)
