"""Many devices with habits at once: when and why not they are available, and which may be available at all."""

import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsim.availability.batch import Batch, PossibleClients, Reasons
from fedsim.availability.civil import Civil, Place
from fedsim.availability.habits.days import KernelTables, TableBuilder
from fedsim.availability.habits.kernel import (
    CHARGING,
    DAY_PARTS,
    available_intervals,
    available_until,
    possible_parts,
    unmet_conditions,
)
from fedsim.availability.habits.persons import Persons
from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.bits import transpose_all, words_for
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.reasons import REASON_OF
from fedsim.scenario.habits import Condition, Habits

_WINDOW = 28 * DAY  # longest for one call of the compiled loops
_DAY_COST = 2  # finding the possible devices of a day costs as much as looking up 1 / _DAY_COST of the members
_SAVING = 6  # a look-up on a day with possible devices stands for this many without
_CHUNK = 1 << 16  # clients of a thread


class HabitsBatch(Batch):
    """Devices with one set of habits in one place.

    `members` (n,) are their indices in ascending order; batches in other places share `persons` and `builder`.
    """

    foreseeable = DAY

    def __init__(self, habits: Habits, place: Place, members: Ints, persons: Persons, builder: TableBuilder) -> None:
        self._habits, self._place, self._members, self._persons = habits, place, members, persons
        self._require = sum(int(REASON_OF[each]) for each in habits.require)
        self._builder = builder
        self._today, self._asked, self._many = 0, 0, False
        # Members who may be available, for each part of a local day: where it begins, and the length of a part
        self._rows: Bits = np.zeros((DAY_PARTS, 0), dtype=np.uint64)
        self._begin, self._part = 0, 0

    def possible(self, instant: int) -> PossibleClients | None:
        """Return which clients may be on a charger with a network, if today or the day before has many look-ups.

        Screen uses and network failures are ignored, so some who are not available are among them.
        """
        if not self._require & CHARGING:
            return None
        clock = self._place.clock(instant)
        today = clock.day(instant)
        if today != self._today:
            self._many = self._asked * (_DAY_COST * _SAVING if self._many else _DAY_COST) > len(self._members)
            self._today, self._asked = today, 0
        elif not self._many:
            self._many = self._asked * _DAY_COST > len(self._members)
        if not self._many:
            return None
        if not self._begin <= instant < self._begin + DAY_PARTS * self._part:
            self._find_possible(today, clock)
        part = (instant - self._begin) // self._part
        return PossibleClients(self._rows[part], self._begin + (part + 1) * self._part)

    def at(self, clients: Ints, instant: int) -> Bools:
        self._asked += len(clients)
        return self._available_until(clients, instant, np.array([instant]), ends=False) > instant

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        return unmet_conditions(clients, instant, self._require, self._tables(clients, instant, instant))

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        ends = self._available_until(clients, instant, until, ends=True)
        return np.where(ends <= until, ends, FOREVER)

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        return self.spells_of(self._habits.require, clients, since, until)

    def spells_of(self, conditions: Collection[Condition], clients: Ints, since: int, until: int) -> Spells:
        """Return when clients (n,) meet some conditions within [since, until), sorted by client and start."""
        require = sum(int(REASON_OF[each]) for each in conditions)
        windows = ((first, min(first + _WINDOW, until)) for first in range(since, until, _WINDOW))
        parts = [
            Spells(*available_intervals(clients, *each, require, self._tables(clients, *each)), len(clients))
            for each in windows
        ]
        return parts[0] if len(parts) == 1 else Spells.together(parts, len(clients)).joined()

    def _available_until(self, clients: Ints, instant: int, limits: Ints, *, ends: bool) -> Ints:
        tables, rows = self._tables(clients, instant, int(limits.max(initial=instant))), clients - self._persons.first
        held = self._persons.held_until[rows]
        until = available_until(clients, instant, limits, self._require, held, ends, tables)
        self._persons.held_until[rows] = held
        return until

    def _tables(self, clients: Ints, since: int, until: int) -> KernelTables:
        return self._builder.build(since, until, self._place.clock(since), self._persons.rows_of(clients))

    def _find_possible(self, day: int, clock: Civil) -> None:
        begin, until = clock.instant(clock.midnight(np.array([day, day + 1]))).tolist()
        self._begin, self._part = begin, -(-(until - begin) // DAY_PARTS)
        bits = np.zeros(DAY_PARTS * words_for(int(self._members.max(initial=0)) + 1), dtype=np.uint64)

        def compute_chunk(first: int) -> None:
            clients = self._members[first : first + _CHUNK]
            tables = self._tables(clients, begin, until)
            bits[clients] = possible_parts(clients, begin, self._part, self._require, tables)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # each client is in one of them
            list(threads.map(compute_chunk, range(0, len(self._members), _CHUNK)))
        self._rows = transpose_all(bits)
