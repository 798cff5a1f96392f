"""Availability from daily habits: where charging, network and idle hold together, as far as they are required."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fedsim.availability.batch import Clients
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.place import Place
from fedsim.common.instants import DAY
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Charging, Condition, Habits, Idle, Network

if TYPE_CHECKING:
    from fedsim.availability.habits.batch import HabitsBatch
    from fedsim.availability.habits.days import Calendar

_FIRST_WINDOW, _WINDOW = 2 * DAY, 14 * DAY


class HabitsAvailability(ExactModel):
    """Devices that live by the habits of a person.

    Parameters
    ----------
    require
        Conditions that must all hold.
    charging, network, idle
        The habits, as the scenario has them.
    """

    def __init__(self, require: list[Condition], charging: Charging, network: Network, idle: Idle) -> None:
        self.habits = Habits(kind="habits", require=require, charging=charging, network=network, idle=idle)
        self._calendar = lru_cache(maxsize=4)(self._calendar_of)

    def conditions(self, client: int, place: Place, draws: Stream, since: int = 0) -> Mapping[str, Pieces]:
        """Return the intervals of each required condition of one device."""
        return {each: self._pieces([each], client, place, draws, since) for each in self.habits.require}

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:
        """Return the intervals in which one device meets all conditions."""
        return self._pieces(self.habits.require, client, place, draws, 0)

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[HabitsBatch]":
        """Return a batch for each place; they share what they know of persons, so many take no more memory."""
        # It takes a compiler along, which only those shall load who need it.
        from fedsim.availability.habits.batch import HabitsBatch
        from fedsim.availability.habits.persons import Persons

        first = min(int(members.min()) for _, members in homes)
        last = max(int(members.max()) for _, members in homes)
        persons, calendar = Persons(self.habits, first, last - first + 1, draws), self._calendar(draws.key)
        return [HabitsBatch(self.habits, place, members, persons, calendar) for place, members in homes]

    def _calendar_of(self, key: int) -> "Calendar":
        from fedsim.availability.habits.days import Calendar

        return Calendar(self.habits, key)

    def _pieces(
        self, conditions: Collection[Condition], client: int, place: Place, draws: Stream, since: int
    ) -> Pieces:
        one, until = np.array([client]), since + _FIRST_WINDOW
        (batch,) = self.batches([(place, one)], draws)
        while True:
            _, starts, ends = batch.meetings(conditions, one, since, until)
            yield from zip(starts.tolist(), ends.tolist(), strict=True)
            yield until, until
            since, until = until, until + _WINDOW
