"""Many devices with habits at once: whether, until when and why not at an instant, and everything within a window."""

from collections.abc import Collection

import numpy as np

from fedsim.availability.batch import Batch, Clients, Mask, Possible, Reasons, Spells, joined, together
from fedsim.availability.habits.days import Calendar, Known
from fedsim.availability.habits.kernel import CHARGING, holding_until, meetings, unmet
from fedsim.availability.habits.persons import Persons
from fedsim.availability.habits.possible import PossibleDays
from fedsim.availability.place import Place
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.reasons import REASON_OF
from fedsim.scenario.habits import Condition, Habits

_AT_ONCE = 28 * DAY  # of a window
_WORTH, _LEFT = 2, 6


class HabitsBatch(Batch):
    """Devices with one set of habits in one place.

    `members` (n,) are their indices, and `persons` are behind them; batches in other places may share the persons.
    """

    foreseeable = DAY

    def __init__(self, habits: Habits, place: Place, members: Clients, persons: Persons, calendar: Calendar) -> None:
        self._habits, self._place, self._members, self._persons = habits, place, members, persons
        self._require = sum(int(REASON_OF[each]) for each in habits.require)
        self._calendar = calendar
        self._days = PossibleDays(members, persons, self._require, calendar) if self._require & CHARGING else None
        self._today, self._asked, self._many = 0, 0, False

    def possible(self, instant: int) -> Possible | None:
        """Tell who may be on a charger with a network, if many are asked about on this day, or were the day before.

        It costs as much as looking up half of them (`_WORTH`); on such days each look-up stands for `_LEFT` without it.
        """
        if self._days is None:
            return None
        clock = self._place.clock(instant)
        today = clock.day(instant)
        if today != self._today:
            self._many = self._asked * (_WORTH * _LEFT if self._many else _WORTH) > len(self._members)
            self._today, self._asked = today, 0
        elif not self._many:
            self._many = self._asked * _WORTH > len(self._members)
        return self._days.at(instant, clock) if self._many else None

    def at(self, clients: Clients, instant: int) -> Mask:
        """Look each of them up."""
        self._asked += len(clients)
        return self._holding_until(clients, instant, np.array([instant])) > instant

    def reasons(self, clients: Clients, instant: int) -> Reasons:
        """Look up each condition that is required."""
        return unmet(clients, instant, self._require, self._known(clients, instant, instant))

    def ends(self, clients: Clients, instant: int, until: Ints) -> Ints:
        """Look for the first condition that ceases to hold."""
        found = self._holding_until(clients, instant, until)
        return np.where(found <= until, found, FOREVER)

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Go through the window client by client."""
        return self.meetings(self._habits.require, clients, since, until)

    def meetings(self, conditions: Collection[Condition], clients: Clients, since: int, until: int) -> Spells:
        """Return when clients (n,) meet some conditions within [since, until), in the order of clients and starts."""
        require = sum(int(REASON_OF[each]) for each in conditions)
        windows = ((first, min(first + _AT_ONCE, until)) for first in range(since, until, _AT_ONCE))
        parts = [Spells(*meetings(clients, *each, require, self._known(clients, *each))) for each in windows]
        if len(parts) == 1:
            return parts[0]
        who, starts, ends = together(parts)
        order = np.lexsort((starts, who))
        return joined(who[order], starts[order], ends[order])

    def _holding_until(self, clients: Clients, instant: int, limits: Ints) -> Ints:
        known = self._known(clients, instant, int(limits.max(initial=instant)))
        return holding_until(clients, instant, limits, self._require, known)

    def _known(self, clients: Clients, since: int, until: int) -> Known:
        self._persons.know(clients)
        return self._calendar.known(since, until, self._place.clock(since), self._persons)
