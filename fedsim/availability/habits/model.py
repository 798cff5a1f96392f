"""Availability from daily habits: where charging, network and idle hold together, as far as they are required.

Everything is a function of the device and of a local day (or of a five-minute slot): the intervals are worked out
some days at a time, and the state at any instant from the few days before it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsim.availability.batch import Clients, Mask
from fedsim.availability.habits.sweep import meeting, meeting_at
from fedsim.availability.place import Place
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Charging, Condition, Habits, Idle, Network

if TYPE_CHECKING:
    from fedsim.availability.habits.batch import HabitsBatch

_FIRST_WINDOW = 2 * 86_400.0
_WINDOW = 28 * 86_400.0


class HabitsAvailability:
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

    def intervals(self, client: int, place: Place, draws: Stream) -> Iterator[tuple[float, float]]:
        """Return the intervals in which one device meets all conditions, in pieces as told in `AvailabilityModel`."""
        return self._pieces(self.habits.require, client, place, draws)

    def conditions(self, client: int, place: Place, draws: Stream) -> Mapping[str, Iterator[tuple[float, float]]]:
        """Return the intervals of each required condition of one device."""
        return {each: self._pieces([each], client, place, draws) for each in self.habits.require}

    def available_at(self, clients: Clients, instant: float, place: Place, draws: Stream) -> Mask:
        """Say of each of many devices whether it meets all conditions at an instant."""
        return meeting_at(self.habits, clients, instant, place, draws)

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[HabitsBatch]":
        """Return a batch for each place; what they remember by client is shared, so that many take no more memory."""
        # It takes a compiler along, which only those shall load who need it.
        from fedsim.availability.habits.batch import HabitsBatch

        last = np.array([max(int(members.max(initial=0)) for _, members in homes)])
        first = HabitsBatch(self.habits, homes[0][0], last, draws)
        return [first.elsewhere(place, members) for place, members in homes]

    def _pieces(
        self, conditions: Collection[Condition], client: int, place: Place, draws: Stream
    ) -> Iterator[tuple[float, float]]:
        since, until, one = 0.0, _FIRST_WINDOW, np.array([client])
        while True:
            _, starts, ends = meeting(self.habits, conditions, one, since, until, place, draws)
            yield from zip(starts.tolist(), ends.tolist(), strict=True)
            if not len(starts):
                yield until, until
            since, until = until, until + _WINDOW
