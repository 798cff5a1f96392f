"""The availability of all groups together: questions are dealt out to the batches of their models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Possible, Reasons, Spells, together
from fedsim.availability.model import AvailabilityModel, Batched
from fedsim.availability.place import Place
from fedsim.availability.walked import WalkedBatch
from fedsim.common.arrays import Bits, Ints
from fedsim.common.keyed import Stream


@dataclass(eq=False)
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
    """

    batches: Sequence[Batch]
    of_cell: Ints
    cell: Ints

    def __post_init__(self) -> None:
        self._told: list[Possible | None] = [None] * len(self.batches)
        self._possible: Bits | None = None

    @cached_property
    def _of_client(self) -> NDArray[np.unsignedinteger[Any]]:
        """(N,) batch of each device; small numbers are sorted faster."""
        return self.of_cell[self.cell].astype(np.min_scalar_type(len(self.batches)))

    @property
    def followed(self) -> Mask:
        """(N,) whose batch follows them from instant to instant."""
        return np.array([batch.follows for batch in self.batches])[self.of_cell[self.cell]]

    @property
    def may_leave(self) -> Mask:
        """(N,) whose device may become unavailable for good."""
        return np.array([batch.may_leave for batch in self.batches])[self.of_cell[self.cell]]

    @property
    def foreseeable(self) -> int:
        """Longest window, in milliseconds, that is worth working out for all devices ahead of time; 0: none."""
        return min(batch.foreseeable for batch in self.batches)

    def possible(self, instant: int) -> Bits | None:
        """Return the devices that may be available at an instant, as bits; None where that is not known at a glance."""
        told = [
            last if last is not None and instant < last.until else batch.possible(instant)
            for batch, last in zip(self.batches, self._told, strict=True)
        ]
        if any(now is not last for now, last in zip(told, self._told, strict=True)):
            self._told, self._possible = told, self._put_together(told)
        return self._possible

    def _put_together(self, told: Sequence[Possible | None]) -> Bits | None:
        known = [each.bits for each in told if each is not None]
        if not known:
            return None
        if len(told) == 1:
            return known[0]
        from fedsim.common.bits import with_numbers, words_for  # only where needed: it compiles

        bits = np.zeros(words_for(len(self.cell)), dtype=np.uint64)
        for own in known:
            bits[: len(own)] |= own
        unknown = np.array([each is None for each in told])
        return with_numbers(bits, np.flatnonzero(unknown[self._of_client]))

    def at(self, clients: Clients, instant: int) -> Mask:
        """Say of each client whether it is available."""
        possible = self.possible(instant)
        if possible is None:
            return self._at(clients, instant)
        from fedsim.common.bits import places_in  # as above

        answer, left = np.zeros(len(clients), dtype=np.bool_), places_in(possible, clients)
        answer[left] = self._at(clients[left], instant)
        return answer

    def _at(self, clients: Clients, instant: int) -> Mask:
        return self._dealt(clients, np.bool_, lambda batch, some, _: batch.at(some, instant))

    def reasons(self, clients: Clients, instant: int) -> Reasons:
        """Return what keeps each client from being available."""
        return self._dealt(clients, np.uint16, lambda batch, some, _: batch.reasons(some, instant))

    def ends(self, clients: Clients, instant: int, until: Ints) -> Ints:
        """Return for each of some clients that are available the end of that time, if it is not after `until`."""
        return self._dealt(clients, np.int64, lambda batch, some, own: batch.ends(some, instant, until[own]))

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Return when the clients are available within [since, until)."""
        if len(self.batches) == 1:
            return self.batches[0].spells(clients, since, until)
        parts = ((own, batch.spells(clients[own], since, until)) for batch, own in self._deal(clients))
        return together(part._replace(who=own[part.who]) for own, part in parts)

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:
        """Return from when each client is never available again, `FOREVER` after `until`."""
        return self._dealt(clients, np.int64, lambda batch, some, _: batch.leaves(some, since, until))

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
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(1, len(self.batches)))
        return [(batch, own) for batch, own in zip(self.batches, np.split(order, cuts), strict=True) if len(own)]


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
    of_each = np.split(order, np.searchsorted(cell[order], np.arange(1, len(models))))
    batches: list[Batch] = []
    of_cell = np.empty(len(models), dtype=np.int64)
    for by_place in homes.values():
        model = models[next(iter(by_place.values()))[0]]
        members = [np.sort(np.concatenate([of_each[each] for each in own])) for own in by_place.values()]
        if isinstance(model, Batched):
            found = model.batches(list(zip(by_place, members, strict=True)), draws)
        else:
            found = [WalkedBatch(model, place, draws) for place in by_place]
        for batch, own in zip(found, by_place.values(), strict=True):
            if not (batches and batches[-1] is batch):
                batches.append(batch)
            of_cell[own] = len(batches) - 1
    return PopulationAvailability(batches, of_cell, cell)
