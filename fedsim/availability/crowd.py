"""The devices of all groups together: questions are dealt out to the batches of their kinds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.always.batch import AlwaysBatch
from fedsim.availability.batch import Batch, Clients, Floats, Mask, Spells
from fedsim.availability.model import Kind
from fedsim.availability.place import Place
from fedsim.availability.renewal.batch import RenewalBatch
from fedsim.availability.trace.batch import TraceBatch
from fedsim.availability.trace.recorded import Replay
from fedsim.common.keyed import Stream
from fedsim.scenario.availability import Always, Renewal
from fedsim.scenario.habits import Habits

if TYPE_CHECKING:
    from fedsim.availability.habits.batch import HabitsBatch


@dataclass(frozen=True)
class Crowd:
    """All devices; answers as a `Batch` does.

    Attributes
    ----------
    batches
        One for each kind and place that occurs.
    of_group
        Batch of each group.
    group
        (N,) group of each device.
    """

    batches: Sequence[Batch]
    of_group: NDArray[np.int64]
    group: NDArray[np.int64]

    def at(self, clients: Clients, instant: float) -> Mask:
        """Say of each client whether it is available."""
        return self._dealt(clients, np.bool_, lambda batch, some, _: batch.at(some, instant))

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Return for each of some clients that are available the end of that time, if it is not after `until`."""
        return self._dealt(clients, np.float64, lambda batch, some, own: batch.ends(some, instant, until[own]))

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Return when the clients are available within [since, until)."""
        if len(self.batches) == 1:
            return self.batches[0].spells(clients, since, until)
        parts = [Spells(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))]
        for batch, own in self._deal(clients):
            part = batch.spells(clients[own], since, until)
            parts.append(Spells(own[part.who], part.starts, part.ends))
        return Spells(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:
        """Return from when each client is never available again, infinite after `until`."""
        return self._dealt(clients, np.float64, lambda batch, some, _: batch.leaves(some, since, until))

    def _dealt(
        self,
        clients: Clients,
        kind: type,
        ask: Callable[[Batch, Clients, NDArray[np.intp] | slice], NDArray[Any]],
    ) -> NDArray[Any]:
        if len(self.batches) == 1:
            return ask(self.batches[0], clients, slice(None))
        answer: NDArray[Any] = np.zeros(len(clients), dtype=kind)
        for batch, own in self._deal(clients):
            answer[own] = ask(batch, clients[own], own)
        return answer

    def _deal(self, clients: Clients) -> list[tuple[Batch, NDArray[np.intp]]]:
        number = self.of_group[self.group[clients]]
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(len(self.batches) + 1))
        parts = ((batch, order[cuts[index] : cuts[index + 1]]) for index, batch in enumerate(self.batches))
        return [(batch, own) for batch, own in parts if len(own)]


def crowd(kinds: Sequence[Kind], places: Sequence[Place], group: NDArray[np.int64], draws: Stream) -> Crowd:
    """Return the devices of a population.

    Parameters
    ----------
    kinds, places
        Availability model and place of each group, or of each part of a group that lives in a time zone of its own.
    group
        (N,) group, or part, of each device.
    draws
        The stream for availability.
    """
    numbers: dict[object, int] = {}
    of_group = np.empty(len(kinds), dtype=np.int64)
    for index, (kind, place) in enumerate(zip(kinds, places, strict=True)):
        of_group[index] = numbers.setdefault(_key(kind, place), len(numbers))
    batches: list[Batch] = []
    of_client = of_group[group]
    order = np.argsort(of_client, kind="stable") if len(numbers) > 1 else np.arange(len(group))
    cuts = np.searchsorted(of_client[order], np.arange(len(numbers) + 1))
    firsts = np.unique(of_group, return_index=True)[1].tolist()
    last: dict[object, int] = {}  # largest index of a client of each kind, wherever
    for number, first in enumerate(firsts):
        alike = _alike(kinds[first])
        last[alike] = max(int(order[cuts[number + 1] - 1]), last.get(alike, 0))
    habits: dict[object, HabitsBatch] = {}
    traces: dict[object, TraceBatch] = {}
    for number, first in enumerate(firsts):
        members = order[cuts[number] : cuts[number + 1]]
        kind, place = kinds[first], places[first]
        alike = _alike(kind)
        match kind:
            case Always():
                batches.append(AlwaysBatch())
            case Renewal():
                batches.append(RenewalBatch(kind, members, draws))
            case Habits():
                if alike not in habits:
                    habits[alike] = _habits_batch(kind, place, np.array([last[alike]]), draws)
                batches.append(habits[alike].elsewhere(place, members))
            case Replay():
                if alike not in traces:
                    traces[alike] = TraceBatch(kind, place, draws)
                batches.append(traces[alike].elsewhere(place))
    return Crowd(batches, of_group, group)


def _habits_batch(kind: Habits, place: Place, members: Clients, draws: Stream) -> "HabitsBatch":
    # It takes a compiler along, which only those shall load who need it.
    from fedsim.availability.habits.batch import HabitsBatch

    return HabitsBatch(kind, place, members, draws)


def _key(kind: Kind, place: Place) -> object:
    """Return what two groups share whose devices can be asked about together."""
    return _alike(kind) if isinstance(kind, Always | Renewal) else (_alike(kind), place)


def _alike(kind: Kind) -> object:
    """Return what two groups share whose devices live by one model, wherever."""
    return id(kind) if isinstance(kind, Replay) else kind.model_dump_json()
