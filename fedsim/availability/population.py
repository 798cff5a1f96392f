"""The availability of all groups together: questions are dealt out to the batches of their models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Spells, together
from fedsim.availability.model import AvailabilityModel, Batched
from fedsim.availability.place import Place
from fedsim.availability.possible import PossibleClients
from fedsim.availability.walked import WalkedBatch
from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.keyed import Stream

_FEW = 16  # batches among which clients are dealt out by comparing


@dataclass(frozen=True)
class PopulationAvailability:
    """The availability of all devices; answers as a `Batch` does.

    Attributes
    ----------
    batches
        One for each model and place that occurs, or for several of them.
    of_cell
        Batch of each cell.
    cell
        (N,) cell of each device.
    members
        The devices of each batch, in ascending order.
    """

    batches: Sequence[Batch]
    of_cell: Ints
    cell: Ints
    members: Sequence[Clients]

    @cached_property
    def _possible(self) -> PossibleClients:
        return PossibleClients(self.batches, self.members, len(self.cell))

    @cached_property
    def _of_client(self) -> NDArray[np.int32]:
        """(N,) batch of each device."""
        return self.of_cell[self.cell].astype(np.int32)

    @property
    def followed(self) -> Mask:
        """(N,) whose batch follows them from instant to instant."""
        return np.array([batch.follows for batch in self.batches])[self.of_cell[self.cell]]

    @property
    def foreseeable_s(self) -> float:
        """For how many seconds it pays to work out everyone's spells, beside asking about everyone some times."""
        return min(batch.foreseeable_s for batch in self.batches)

    def possible(self, instant: float) -> Bits | None:
        """Return the devices that may be available at an instant, as bits; None where that is not known at a glance."""
        return self._possible.at(instant)

    def at(self, clients: Clients, instant: float) -> Mask:
        """Say of each client whether it is available."""
        possible = self.possible(instant)
        if possible is None:
            return self._at(clients, instant)
        from fedsim.common.bits import places_in  # as in `PossibleClients`

        answer, left = np.zeros(len(clients), dtype=np.bool_), places_in(possible, clients)
        answer[left] = self._at(clients[left], instant)
        return answer

    def _at(self, clients: Clients, instant: float) -> Mask:
        return self._dealt(clients, np.bool_, lambda batch, some, _: batch.at(some, instant))

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Return for each of some clients that are available the end of that time, if it is not after `until`."""
        return self._dealt(clients, np.float64, lambda batch, some, own: batch.ends(some, instant, until[own]))

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Return when the clients are available within [since, until)."""
        if len(self.batches) == 1:
            return self.batches[0].spells(clients, since, until)
        parts = ((own, batch.spells(clients[own], since, until)) for batch, own in self._deal(clients))
        return together(part._replace(who=own[part.who]) for own, part in parts)

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
        number = self._of_client[clients]
        if len(self.batches) <= _FEW:
            some = [(batch, (number == index).nonzero()[0]) for index, batch in enumerate(self.batches)]
            return [(batch, own) for batch, own in some if len(own)]
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(len(self.batches) + 1))
        parts = ((batch, order[cuts[index] : cuts[index + 1]]) for index, batch in enumerate(self.batches))
        return [(batch, own) for batch, own in parts if len(own)]


def population_availability(
    models: Sequence[AvailabilityModel], places: Sequence[Place], cell: Ints, draws: Stream
) -> PopulationAvailability:
    """Return the availability of a population.

    Parameters
    ----------
    models, places
        Availability model and place of each group, or of each part of a group that lives in a time zone of its own.
    cell
        (N,) group, or part, of each device.
    draws
        The stream for availability.
    """
    homes: dict[int, dict[Place, list[int]]] = {}  # cells by model and place
    for index, (model, place) in enumerate(zip(models, places, strict=True)):
        homes.setdefault(id(model), {}).setdefault(place, []).append(index)
    order = np.argsort(cell, kind="stable")
    cuts = np.searchsorted(cell[order], np.arange(len(models) + 1))
    batches: list[Batch] = []
    of_batch: list[list[Clients]] = []
    of_cell = np.empty(len(models), dtype=np.int64)
    for by_place in homes.values():
        model = models[next(iter(by_place.values()))[0]]
        members = [
            np.sort(np.concatenate([order[cuts[each] : cuts[each + 1]] for each in own])) for own in by_place.values()
        ]
        if isinstance(model, Batched):
            found = model.batches(list(zip(by_place, members, strict=True)), draws)
        else:
            found = [WalkedBatch(model, place, draws) for place in by_place]
        for batch, own, clients in zip(found, by_place.values(), members, strict=True):
            if not (batches and batches[-1] is batch):
                batches.append(batch)
                of_batch.append([])
            of_cell[own] = len(batches) - 1
            of_batch[-1].append(clients)
    members_of = [each[0] if len(each) == 1 else np.sort(np.concatenate(each)) for each in of_batch]
    return PopulationAvailability(batches, of_cell, cell, members_of)
