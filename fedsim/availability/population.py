"""The availability of a whole population: its strata, and a batch for each model and place."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, PossibleClients, Reasons
from fedsim.availability.civil import Place
from fedsim.availability.kinds import availability_models
from fedsim.availability.model import AvailabilityModel, ExactModel, Pieces, pieces
from fedsim.availability.spells import Spells
from fedsim.availability.trace import RecordedAvailability
from fedsim.common.arrays import Bits, Bools, Ints
from fedsim.common.instants import FOREVER
from fedsim.common.keyed import Stream
from fedsim.population import Population, residence
from fedsim.scenario import Scenario


class _Walk:
    """One device: its intervals from the last instant asked about on.

    `begun` are pairs (start, end) of the intervals that begin before `reached` (`FOREVER` after the last one).
    """

    __slots__ = ("_pieces", "begun", "reached")

    def __init__(self, upcoming: Pieces) -> None:
        self._pieces, self.begun, self.reached = upcoming, deque[tuple[int, int]](), -1

    def to(self, instant: int) -> deque[tuple[int, int]]:
        """Extend the intervals to all that begin up to an instant, and return them."""
        while self.reached <= instant:
            piece = next(self._pieces, None)
            if piece is None:
                self.reached = FOREVER
                break
            start, end = piece
            if start < end:
                if self.begun and self.begun[-1][1] == start:
                    start = self.begun.pop()[0]
                self.begun.append((start, end))
            self.reached = end
        return self.begun


class WalkedBatch(Batch):
    """Devices of one model in one place; it asks the model for intervals only, so any model will do."""

    follows = may_leave = True

    def __init__(self, model: AvailabilityModel, place: Place, draws: Stream) -> None:
        self._model, self._place, self._draws = model, place, draws
        self._walks: dict[int, _Walk] = {}

    def at(self, clients: Ints, instant: int) -> Bools:
        answer = np.zeros(len(clients), dtype=np.bool_)
        for position, client in enumerate(clients.tolist()):
            begun = self._walk(client).to(instant)
            while len(begun) > 1 and begun[0][1] <= instant:  # the last of all stays, for `leaves`
                begun.popleft()
            answer[position] = bool(begun) and begun[0][0] <= instant < begun[0][1]
        return answer

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        rows = [
            (who, max(start, since), min(end, until))
            for who, client in enumerate(clients.tolist())
            for start, end in self._walk(client).to(until)
            if start < until and end > since
        ]
        who, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return Spells(who, starts, ends, len(clients))

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        gone = np.full(len(clients), FOREVER)
        for position, client in enumerate(clients.tolist()):
            begun = (walk := self._walk(client)).to(until)
            last = max(begun[-1][1], since) if begun else since
            if walk.reached == FOREVER and last <= until:
                gone[position] = last
        return gone

    def _walk(self, client: int) -> _Walk:
        if client not in self._walks:
            self._walks[client] = _Walk(pieces(self._model, client, self._place, self._draws))
        return self._walks[client]


@dataclass(frozen=True)
class Strata:
    """The strata of a population, in the order of groups: the clients of one group in one time zone are a stratum."""

    # models, places: availability model and place of each stratum
    models: Sequence[AvailabilityModel]
    places: Sequence[Place]
    names: Sequence[tuple[str, str]]  # names of each stratum's group and of its time zone
    of_client: Ints  # (N,) stratum of each client
    # (N,) instants at which each client joins and leaves for good; None where nobody does
    joins: Ints | None = None
    leaves: Ints | None = None


def recorded_names(devices: Strata, draws: Stream) -> pl.Series | None:
    """Return (N,) the name of the recorded device that each client replays, null without; None where nobody has one."""
    names, codes = list[str | None]([None]), np.zeros(len(devices.of_client), dtype=np.int64)
    for index, model in enumerate(devices.models):
        if isinstance(model, RecordedAvailability):
            members = np.flatnonzero(devices.of_client == index)
            codes[members] = len(names) + model.assigned(members, draws)
            names += model.pattern.names
    return pl.Series(names, dtype=pl.String).gather(codes) if len(names) > 1 else None


def strata(scenario: Scenario, population: Population, models: Sequence[AvailabilityModel] | None = None) -> Strata:
    """Return the strata of a scenario's population; `models` are those of its groups, if they are made already.

    Raises a `ScenarioError` if a model cannot be made; every mistake with its place.
    """
    models = availability_models(scenario) if models is None else models
    group, zone, of_client = residence(population)
    places = [Place(scenario.start, ZoneInfo(name)) for name in population.zone_names]
    pairs = list(zip(group.tolist(), zone.tolist(), strict=True))
    return Strata(
        [models[each] for each, _ in pairs],
        [places[each] for _, each in pairs],
        [(population.group_names[each], population.zone_names[where]) for each, where in pairs],
        of_client,
        population.joins,
        population.leaves,
    )


@dataclass(eq=False)
class PopulationAvailability:
    """The availability of all devices; answers as a `Batch` does.

    `batches` has one for each model and place, or for several of them; `batch_of_stratum` are indices into it, and
    `stratum` (N,) is that of each device.
    """

    batches: Sequence[Batch]
    batch_of_stratum: Ints
    stratum: Ints

    def __post_init__(self) -> None:
        self._possible_of: list[PossibleClients | None] = [None] * len(self.batches)
        self._possible: Bits | None = None

    @cached_property
    def _of_client(self) -> NDArray[np.unsignedinteger[Any]]:
        """(N,) batch of each device; small numbers are sorted faster."""
        return self.batch_of_stratum[self.stratum].astype(np.min_scalar_type(len(self.batches)))

    @property
    def followed(self) -> Bools:
        """(N,) whose batch follows them from instant to instant."""
        return np.array([batch.follows for batch in self.batches])[self.batch_of_stratum[self.stratum]]

    @property
    def may_leave(self) -> Bools:
        return np.array([batch.may_leave for batch in self.batches])[self.batch_of_stratum[self.stratum]]

    @property
    def foreseeable(self) -> int:
        """Longest window, in milliseconds, worth precomputing for all devices; 0 disables it."""
        return min(batch.foreseeable for batch in self.batches)

    def possible(self, instant: int) -> Bits | None:
        """Return which devices may be available at an instant, as bits; None where that is not known cheaply."""
        answers = [
            last if last is not None and instant < last.until else batch.possible(instant)
            for batch, last in zip(self.batches, self._possible_of, strict=True)
        ]
        if any(now is not last for now, last in zip(answers, self._possible_of, strict=True)):
            self._possible_of, self._possible = answers, self._union(answers)
        return self._possible

    def _union(self, answers: Sequence[PossibleClients | None]) -> Bits | None:
        """Return the possible devices of all batches; every device of a batch that does not know its own."""
        sets = [each.bits for each in answers if each is not None]
        if not sets:
            return None
        if len(answers) == 1:
            return sets[0]
        from fedsim.common.bits import with_numbers, words_for  # only where needed: it compiles

        bits = np.zeros(words_for(len(self.stratum)), dtype=np.uint64)
        for members in sets:
            bits[: len(members)] |= members
        unknown = np.array([each is None for each in answers])
        return with_numbers(bits, np.flatnonzero(unknown[self._of_client]))

    def at(self, clients: Ints, instant: int) -> Bools:
        possible = self.possible(instant)
        if possible is None:
            return self._at(clients, instant)
        from fedsim.common.bits import places_in  # as above

        answer, left = np.zeros(len(clients), dtype=np.bool_), places_in(possible, clients)
        answer[left] = self._at(clients[left], instant)
        return answer

    def _at(self, clients: Ints, instant: int) -> Bools:
        return self._ask_each(clients, np.bool_, lambda batch, some, _: batch.at(some, instant))

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        return self._ask_each(clients, np.uint16, lambda batch, some, _: batch.reasons(some, instant))

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        return self._ask_each(clients, np.int64, lambda batch, some, places: batch.ends(some, instant, until[places]))

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        if len(self.batches) == 1:
            return self.batches[0].spells(clients, since, until)
        parts = ((places, batch.spells(clients[places], since, until)) for batch, places in self._split(clients))
        return Spells.together((replace(part, who=places[part.who]) for places, part in parts), len(clients))

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        return self._ask_each(clients, np.int64, lambda batch, some, _: batch.leaves(some, since, until))

    def _ask_each(
        self, clients: Ints, kind: type, ask: Callable[[Batch, Ints, NDArray[np.intp] | slice], NDArray[Any]]
    ) -> NDArray[Any]:
        """Ask every batch about its own of the clients, and return the answers in the order of the clients."""
        if len(self.batches) == 1:
            return ask(self.batches[0], clients, slice(None))
        answer: NDArray[Any] = np.zeros(len(clients), dtype=kind)
        for batch, places in self._split(clients):
            answer[places] = ask(batch, clients[places], places)
        return answer

    def _split(self, clients: Ints) -> list[tuple[Batch, NDArray[np.intp]]]:
        number = self._of_client[clients]
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(1, len(self.batches)))
        split = zip(self.batches, np.split(order, cuts), strict=True)
        return [(batch, places) for batch, places in split if len(places)]


def population_availability(
    models: Sequence[AvailabilityModel], places: Sequence[Place], stratum: Ints, draws: Stream
) -> PopulationAvailability:
    """Return the availability of a population; models and places are those of `Strata`, `stratum` its `of_client`."""
    homes: dict[int, dict[Place, list[int]]] = {}  # strata by model and place
    for index, (model, place) in enumerate(zip(models, places, strict=True)):
        homes.setdefault(id(model), {}).setdefault(place, []).append(index)
    order = np.argsort(stratum, kind="stable")
    of_each = np.split(order, np.searchsorted(stratum[order], np.arange(1, len(models))))
    batches: list[Batch] = []
    batch_of_stratum = np.empty(len(models), dtype=np.int64)
    for by_place in homes.values():
        model = models[next(iter(by_place.values()))[0]]
        members = [np.sort(np.concatenate([of_each[each] for each in there])) for there in by_place.values()]
        if isinstance(model, ExactModel):
            made = model.batches(list(zip(by_place, members, strict=True)), draws)
        else:
            made = [WalkedBatch(model, place, draws) for place in by_place]
        for batch, there in zip(made, by_place.values(), strict=True):
            if not (batches and batches[-1] is batch):
                batches.append(batch)
            batch_of_stratum[there] = len(batches) - 1
    return PopulationAvailability(batches, batch_of_stratum, stratum)
