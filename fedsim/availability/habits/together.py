"""Availability from daily habits: when charging, network and idle hold together, as far as they are required."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.availability.civil import Place
from fedsim.availability.model import ExactModel, Pieces
from fedsim.common.arrays import Ints
from fedsim.common.instants import DAY
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Charging, Condition, HabitDrift, Habits, Holiday, Idle, Network

if TYPE_CHECKING:
    from fedsim.availability.habits.days import TableBuilder
    from fedsim.availability.habits.many import HabitsBatch

_FIRST_WINDOW, _WINDOW = 2 * DAY, 4 * DAY  # each device of the process engine holds one


class HabitsAvailability(ExactModel):
    """Devices of persons with daily habits, which are available where all conditions of `require` hold."""

    def __init__(
        self,
        require: list[Condition],
        charging: Charging,
        network: Network,
        idle: Idle,
        drift: HabitDrift | None = None,
        holidays: Sequence[Holiday] = (),
    ) -> None:
        parts: dict[str, Any] = {"require": require, "charging": charging, "network": network, "idle": idle}
        self.habits = Habits(kind="habits", drift=drift, holidays=[*holidays], **parts)
        self._builder = lru_cache(maxsize=4)(self._builder_of)

    def conditions(self, client: int, place: Place, draws: Stream, since: int = 0) -> Mapping[str, Pieces]:
        return {each: self._pieces([each], client, place, draws, since) for each in self.habits.require}

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:
        return self._pieces(self.habits.require, client, place, draws, 0)

    def batches(self, homes: Sequence[tuple[Place, Ints]], draws: Stream) -> "list[HabitsBatch]":
        """Return a batch for each place; they share the persons, so many places take no more memory."""
        # These load the compiler, which scenarios without habits do not need.
        from fedsim.availability.habits.many import HabitsBatch
        from fedsim.availability.habits.persons import Persons

        first = min(int(members.min()) for _, members in homes)
        last = max(int(members.max()) for _, members in homes)
        persons, builder = Persons(self.habits, first, last - first + 1, draws), self._builder(draws.key)
        return [HabitsBatch(self.habits, place, members, persons, builder) for place, members in homes]

    def _builder_of(self, key: int) -> "TableBuilder":
        from fedsim.availability.habits.days import TableBuilder

        return TableBuilder(self.habits, key)

    def _pieces(
        self, conditions: Collection[Condition], client: int, place: Place, draws: Stream, since: int
    ) -> Pieces:
        one, until = np.array([client]), since + _FIRST_WINDOW
        (batch,) = self.batches([(place, one)], draws)
        while True:
            spells = batch.spells_of(conditions, one, since, until)
            yield from zip(spells.starts.tolist(), spells.ends.tolist(), strict=True)
            yield until, until
            since, until = until, until + _WINDOW
