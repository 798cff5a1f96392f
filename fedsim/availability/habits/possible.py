"""Who may be on a charger, with a network, in a part of a day at all: worked out for everybody in one go, with margins.

A local day is cut into 64 parts by the clock. The draws are those that say exactly when a device is on its charger
(`charging`) and away from home (`network`), but instead of a normal score or a length, its bounds are looked up in a
table: no draw is turned into a time. So some who are not available are among those who may be; nobody who is available
is missing. Screen uses and failures are not looked at.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients, Possible
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.blocks import (
    CHANCE,
    DRAW,
    MIDDLE,
    MIDDLE_2,
    OFF,
    OFF_2,
    SIZE,
    Block,
    draw,
    fill,
    look_up,
    new_block,
)
from fedsim.availability.habits.bounds import LARGEST_CHANGE, BoundsOfDays, DayBounds
from fedsim.availability.habits.charging import NIGHT_AT_MOST, TOP_UPS, evening
from fedsim.availability.habits.people import People
from fedsim.availability.habits.persons import AT_HOME, AT_WORK, LATER, LEAVES, LIMIT, LONGER, NETWORKS, NIGHT, RETURNS
from fedsim.common.arrays import Bits, Floats
from fedsim.common.bits import transpose, with_numbers, words_for
from fedsim.common.compiled import compiled
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Habits

PARTS = 64
PART = DAY / PARTS
_CHUNK = 1 << 14  # of so many clients a thread works the members out at a time,
_WORDS = words_for(_CHUNK)  # which are so many words of bits
_ALL, _NONE = ~np.uint64(0), np.uint64(0)
_BOTH = AT_HOME + AT_WORK


class PossibleDays:
    """The parts of one local day after the other, in which members may be on a charger with a network.

    Parameters
    ----------
    habits
        The habits; charging must be required.
    members
        (n,) indices of the devices, in ascending order.
    draws
        The stream for availability.
    people
        The persons behind the devices.

    Attributes
    ----------
    met_all
        Whether all members' persons have been met.
    """

    def __init__(self, habits: Habits, members: Clients, draws: Stream, people: People) -> None:
        self._habits, self._key, self._people = habits, np.uint64(draws.key), people
        clients = int(members.max(initial=0)) + 1
        # Each client's place in these is its own; pages that no client has needed take no memory.
        self._carry = np.zeros(clients, dtype=np.uint64)
        self._rows = np.zeros((PARTS, words_for(clients)), dtype=np.uint64)
        self._begin(members)

    def _begin(self, members: Clients) -> None:
        """Set out with some members."""
        self._members, self.met_all, self._day = members, False, 0
        self._own: Bits = np.empty(0, dtype=np.uint64)  # the members, as bits

    def beside(self, members: Clients) -> "PossibleDays":
        """Return the days of other members, who live by another clock; the arrays by client are shared."""
        other = copy(self)
        other._begin(members)
        return other

    def at(self, instant: float, clock: Civil, bounds: BoundsOfDays) -> Possible | None:
        """Return who may be available from an instant on; None where nothing is known about that day."""
        day, since = clock.day_and_time(instant)
        if day != self._day and not self._go_to(day, clock, bounds):
            return None
        part = min(max(int(since // PART), 0), PARTS - 1)
        until = instant + ((part + 1) * PART - since)
        changes = clock.changes[clock.changes > instant]
        return Possible(self._rows[part], min(until, float(changes.min(initial=np.inf))))

    def _go_to(self, day: int, clock: Civil, bounds: BoundsOfDays) -> bool:
        """Work out a day, with the one before it where that has not just been done."""
        days = [day] if day == self._day + 1 else [day - 1, day]
        known = [found for each in days if (found := bounds.of(each, clock)) is not None]
        if len(known) < len(days):
            return False
        if not len(self._own):
            self._own = with_numbers(np.zeros(self._rows.shape[1], dtype=np.uint64), self._members)
        if len(days) > 1:
            self._carry[self._members] = 0
        for asked in known:
            self._work_out(asked)
        self._day = day
        return True

    def _work_out(self, asked: DayBounds) -> None:
        networked = "network" in self._habits.require
        columns = self._people.columns
        cuts = np.searchsorted(self._members, np.arange(0, len(self._carry) + _CHUNK, _CHUNK)).tolist()

        def part(number: int) -> None:
            some, words = self._members[cuts[number] : cuts[number + 1]], slice(number * _WORDS, (number + 1) * _WORDS)
            if len(some):
                self._people.meet(some)
                rows, own = self._rows[:, words], self._own[words]
                _possible(some, number * _CHUNK, self._key, asked, columns, networked, self._carry, rows, own)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # every member, and every word, is in one part
            list(threads.map(part, range(len(cuts) - 1)))
        self.met_all = True


def reaches_too_far(habits: Habits) -> bool:
    """Say whether sessions of these habits may begin before their day, or last beyond the next one."""
    night = habits.charging.night
    off = LIMIT * (night.between_persons + night.between_days)
    usual = [evening(night.plug_in), evening(night.plug_in_weekend)]
    length = max(night.length, night.length_weekend)
    length += LIMIT * (night.length_between_persons + night.length_between_days)
    last = max(usual) + off + min(length, NIGHT_AT_MOST)
    return min(usual) - off < LARGEST_CHANGE or last > 2 * DAY - LARGEST_CHANGE


@compiled
def _part(seconds: float) -> int:
    """Return the part of the day of a clock time; a negative one is on the day before."""
    return int(seconds * (1.0 / PART) + PARTS) - PARTS


@compiled
def _between(first: int, last: int) -> np.uint64:
    """Return the bits from the first to the last, as far as they are in the word; none where there are none."""
    low, high = min(max(first, 0), 64), max(min(last, 63), -1)
    bits = (_ALL << np.uint64(min(low, 63))) & (_ALL >> np.uint64(63 - max(high, 0)))
    return bits if low <= high else _NONE


@compiled
def _charging(block: Block, asked: DayBounds, today: Bits, tomorrow: Bits) -> None:
    """Put in which parts of this day and of the next one (SIZE,) sessions of this day may go on."""
    rows, slack = block.rows, asked.slack
    (usual, by_day), (length, longer_by_day) = asked.night_start, asked.night_length
    look_up(block, asked.night[1], asked.scores, False)
    look_up(block, asked.night[2], asked.scores, True)
    draw(block, asked.night[0])
    for place in range(SIZE):
        most = rows[MIDDLE_2 + place] + rows[OFF_2 + place]
        lasts = min(max(length + rows[LONGER * SIZE + place] + longer_by_day * most, 0.0), NIGHT_AT_MOST)
        start, off = usual + rows[LATER * SIZE + place] + by_day * rows[MIDDLE + place], by_day * rows[OFF + place]
        since, until = _part(start - off - slack), _part(start + off + lasts + slack)
        takes = _ALL if rows[DRAW + place] < rows[NIGHT * SIZE + place] else _NONE
        today[place] = _between(since, until) & takes
        tomorrow[place] = _between(since - PARTS, until - PARTS) & takes
    for place in range(SIZE):
        rows[CHANCE + place] = rows[asked.top_up_chance * SIZE + place]
    for number in range(TOP_UPS):
        look_up(block, asked.top_up[1, number], asked.top_up_starts, False)
        look_up(block, asked.top_up[2, number], asked.top_up_lengths, True)
        draw(block, asked.top_up[0, number])
        for place in range(SIZE):
            start, off = rows[MIDDLE + place], rows[OFF + place] + slack
            since, until = _part(start - off), _part(start + off + (rows[MIDDLE_2 + place] + rows[OFF_2 + place]))
            takes = _ALL if rows[DRAW + place] < rows[CHANCE + place] else _NONE
            today[place] |= _between(since, until) & takes
            tomorrow[place] |= _between(since - PARTS, until - PARTS) & takes


@compiled
def _networked(block: Block, asked: DayBounds, today: Bits) -> None:
    """Take out the parts of the day in which there is surely no network."""
    rows, slack, at_work, chance = block.rows, asked.slack, asked.at_work, asked.outing_chance
    leave, back, by_day = asked.outing_times
    look_up(block, asked.outing[1], asked.scores, False)
    look_up(block, asked.outing[2], asked.scores, True)
    draw(block, asked.outing[0])
    for place in range(SIZE):
        networks = rows[NETWORKS * SIZE + place]
        home, works = (networks == AT_HOME) | (networks == _BOTH), (networks >= AT_WORK) & at_work
        leaves, off = leave + rows[LEAVES * SIZE + place] + by_day * rows[MIDDLE + place], by_day * rows[OFF + place]
        returns = back + rows[RETURNS * SIZE + place] + by_day * rows[MIDDLE_2 + place]
        off_2 = by_day * rows[OFF_2 + place]
        surely_away = _between(_part(leaves + off + slack) + 1, _part(returns - off_2 - slack) - 1)
        away = _between(_part(leaves - off - slack), _part(returns + off_2 + slack))
        at_home, working = (_ALL if home else _NONE), (_ALL if works else _NONE)
        # On an outing there is one at work, with a commute before and after; at home, until they surely have left.
        out = (at_home & (working | ~surely_away)) | (~at_home & working & away)
        today[place] &= out if rows[DRAW + place] < chance else at_home


@compiled
def _possible(
    clients: Clients,
    first: int,
    key: np.uint64,
    asked: DayBounds,
    people: Floats,
    networked: bool,
    carry: Bits,
    rows: NDArray[np.uint64],
    own: Bits,
) -> None:
    """Write down in which parts of a day each client may be available, and keep what reaches into the next day.

    The clients are all members from `first` on, `own` as bits, that the columns of `rows` (parts, words) have a place
    for. `carry` (N,) are the parts of this day that sessions of the day before reach into, and then those of the next.
    """
    block, square, tomorrow = new_block(), np.empty(SIZE, np.uint64), np.empty(SIZE, np.uint64)
    parts = np.zeros(SIZE * len(own), np.uint64)
    for begin in range(0, len(clients), SIZE):
        count = fill(block, clients, begin, key, people)
        _charging(block, asked, square, tomorrow)
        for place in range(count):
            client = clients[begin + place]
            square[place] |= carry[client]
            carry[client] = tomorrow[place]
        if networked:
            _networked(block, asked, square)
        for place in range(count):
            parts[clients[begin + place] - first] = square[place]
    for word in range(len(own)):
        square[:] = parts[SIZE * word : SIZE * (word + 1)]
        transpose(square)
        for part in range(PARTS):
            rows[part, word] = (rows[part, word] & ~own[word]) | square[part]
