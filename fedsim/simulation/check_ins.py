"""When devices are connected to a server at which they check in: at times of their own, for a while each.

With a number of check-ins that is wanted in a window, the server steers the pace (Bonawitz et al., *Towards Federated
Learning at Scale: System Design*, SysML 2019): in each of its windows a device comes by chance, each hour with another
one. Who comes follows from availability alone, so it can be looked up for any instant, and a run that goes on needs no
state.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedsim.availability.batch import Reasons
from fedsim.availability.population import PopulationAvailability, Strata
from fedsim.availability.shocks import availability_of
from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.common.instants import HOUR, to_ms
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.reasons import Reason
from fedsim.scenario import Scenario
from fedsim.simulation.arrays.precomputed import PrecomputedAvailability

_DAY = 24  # hours
_KEPT = 8  # windows whose members are kept
_latest: list[Any] = []  # the last scenario with a pace, its replicate, and what its server has seen: for the metrics


class Connections:
    """Device i comes at phase_i + k * every, for whole k, and stays for a window; all in ms.

    `phase` (N,) is from 0 to every - 1. It comes for each k, or by the pace that the server steers.
    """

    pace: "Pace | None" = None

    def __init__(self, phase: Ints, every: int, window: int) -> None:
        self.phase, self.every, self.window = phase, every, window
        self._order = phase.argsort(kind="stable")
        self._instant, self._mask = -1, np.empty(0, dtype=np.bool_)

    @cached_property
    def _rank(self) -> Ints:
        """(N,) the place of each device by its phase."""
        rank = np.empty_like(self._order)
        rank[self._order] = np.arange(len(rank))
        return rank

    def connected(self, instant: int) -> Bools:
        """Return the mask (N,) of the devices that are connected."""
        if instant != self._instant:
            if self.pace is not None:  # see who is there when it is time, and not later
                self.pace.chances(np.array([(instant + HOUR // 2) // HOUR]))
            self._instant, self._mask = instant, self.within(instant, instant + 1)
        return self._mask

    def within(self, since: int, until: int) -> Bools:
        """Return the mask (N,) of the devices that are connected at some instant of [since, until)."""
        mask = np.zeros(len(self.phase), dtype=np.bool_)
        for number in range((since - self.window + 1) // self.every, (until - 1) // self.every + 1):
            mask[self.come(number, since - self.window + 1, until)] = True
        return mask

    def come(self, number: int, since: int, until: int) -> Ints:
        """Return the devices whose windows of that number begin within [since, until)."""
        since, until = since - number * self.every, until - number * self.every
        first, last = self.phase.searchsorted([since, until], sorter=self._order)
        if self.pace is None:
            return self._order[first:last]
        ranks = self.pace.members(number)
        return self._order[ranks[slice(*ranks.searchsorted([first, last]))]]

    def comes(self, client: int, number: int) -> bool:
        """Say whether a client comes in its window of that number, -1 for the one before its first."""
        if self.pace is None:
            return True
        ranks, rank = self.pace.members(number), self._rank[client]
        place = int(ranks.searchsorted(rank))
        return place < len(ranks) and bool(ranks[place] == rank)

    def cut(self, clients: Ints, spells: Spells, since: int, until: int) -> Spells:
        """Return the parts within [since, until) of spells of some clients in which they are connected."""
        starts, ends = np.maximum(spells.starts, since), np.minimum(spells.ends, until)
        phase = self.phase[clients[spells.who]]
        first, last = (starts - phase) // self.every, (ends - 1 - phase) // self.every
        count = np.maximum(last - first + 1, 0)
        spell = np.repeat(np.arange(len(starts)), count)
        number = np.arange(len(spell)) - np.repeat(np.cumsum(count) - count, count) + first[spell]
        comes = phase[spell] + number * self.every
        begins, goes = np.maximum(starts[spell], comes), np.minimum(ends[spell], comes + self.window)
        kept = begins < goes
        if self.pace is not None:
            rank, order = self._rank[clients[spells.who[spell]]], np.argsort(number, kind="stable")
            each, at = np.unique(number[order], return_index=True)
            for one, places in zip(each.tolist(), np.split(order, at)[1:], strict=True):
                kept[places] &= np.isin(rank[places], self.pace.members(one))
        return Spells(spells.who[spell], begins, goes, len(clients)).where(kept)


class ConnectedAvailability:
    """The availability of devices to a server at which they check in: none, while they are not connected."""

    def __init__(self, availability: PrecomputedAvailability, connections: Connections) -> None:
        self._availability, self._connections = availability, connections
        self.stratum, self.leaves = availability.stratum, availability.leaves

    def anybody(self, instant: int) -> Ints:
        return np.flatnonzero(self._connections.connected(instant))

    def possible(self, instant: int) -> Bits | None:
        bits = self._availability.possible(instant)
        if bits is None:
            return None
        connected = np.packbits(self._connections.connected(instant), bitorder="little")
        return bits & np.resize(connected, 8 * len(bits)).view(np.uint64)

    def everyone(self, instant: int) -> Bools | None:
        available = self._availability.everyone(instant)
        return None if available is None else available & self._connections.connected(instant)

    def at(self, clients: Ints, instant: int) -> Bools:
        answer = self._connections.connected(instant)[clients]
        answer[answer] = self._availability.at(clients[answer], instant)
        return answer

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        against = np.where(self._connections.connected(instant)[clients], np.uint16(0), np.uint16(Reason.NOT_CONNECTED))
        return self._availability.reasons(clients, instant) | against

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        here = np.flatnonzero(self._connections.within(since, until)[clients])
        who, starts, ends = self._availability.spells(clients[here], since, until)
        return self._connections.cut(clients, Spells(here[who], starts, ends, len(clients)), since, until)


class Pace:
    """The chance, hour by hour, with which the server has devices come in a window, so that as many come as it wants.

    It knows how many devices there are, and in the middle of each hour it sees who has come: each stands for as many
    available devices as its chance was small. The chance of an hour is by what was seen a day before; on the first day,
    an hour before. Window k of all devices has that of the hour in which it begins for the first of them.
    """

    def __init__(
        self, wanted: int, connections: Connections, availability: PopulationAvailability, draws: Stream
    ) -> None:
        self._wanted, self._connections, self.availability, self._draws = wanted, connections, availability, draws
        self._window, self._clients = connections.window, len(connections.phase)
        self.seen: list[float] = [float(self._clients)]  # of the hour before, and of each that has been seen
        self._drawn: dict[int, Ints] = {}  # members of a few windows

    def members(self, number: int) -> Ints:
        """Return the ranks by phase of those that come in the window of that number, -1 for the one before it all."""
        if number not in self._drawn:
            if len(self._drawn) > _KEPT:
                self._drawn.clear()
            chance = self._chance(number * self._window // HOUR)
            self._drawn[number] = bernoulli_sample(self._clients, chance, self._draws, number + 2)
        return self._drawn[number]

    def chances(self, hours: Ints) -> Floats:
        """Return the chance in each of some hours; what precedes hour 0 has that of hour 0."""
        last = int(hours.max(initial=0))
        while len(self.seen) <= last:
            self.seen.append(self._see((len(self.seen) - 1) * HOUR + HOUR // 2))
        hours = np.maximum(hours, 0)
        return np.minimum(1.0, self._wanted / np.array(self.seen)[np.where(hours < _DAY, hours, hours - _DAY + 1)])

    def _chance(self, hour: int) -> float:
        return float(self.chances(np.array([hour]))[0])

    def _see(self, instant: int) -> float:
        latest, total = instant // self._window, 0.0
        for number in (latest - 1, latest):
            came = self._connections.come(number, instant - self._window + 1, instant + 1)
            total += self.availability.at(came, instant).sum() / self._chance(number * self._window // HOUR)
        # Nobody may have come; and no more can be available than there are devices.
        return float(np.clip(total, 1.0 / self._chance(instant // HOUR), self._clients))


def bernoulli_sample(size: int, chance: float, draws: Stream, number: int) -> Ints:
    """Return those of the numbers below a size that are drawn, each with the same chance and for itself, in order.

    From one to the next it is a geometric number, so this takes as long as those drawn are many (L. Devroye,
    *Non-Uniform Random Variate Generation*, 1986, section X.2). The draws are those of `number`, from index 1 on.
    """
    if chance >= 1.0:
        return np.arange(size)
    parts, last, index = [], -1, 1
    while last < size:
        many = 16 + int((size - last) * chance + 4.0 * ((size - last) * chance) ** 0.5)
        steps = draws.exponentials(number, np.arange(index, index + many)) / -np.log1p(-chance)
        parts.append(last + np.cumsum(steps.astype(np.int64) + 1))
        last, index = int(parts[-1][-1]), index + many
    whole = np.concatenate(parts)
    return whole[: whole.searchsorted(size)]


def connections_of(scenario: Scenario, devices: Strata, replicate: int) -> Connections | None:
    """Return when the clients are connected; None where the server sees all of them at any time."""
    asked = scenario.server.check_ins
    if asked is None:
        return None
    draws, every = stream(scenario.own_seed, replicate, Purpose.CHECK_IN), to_ms(asked.every or asked.window)
    phase = (draws.uniforms(np.arange(len(devices.of_client)), 0) * every).astype(np.int64)
    connections = Connections(phase, every, to_ms(asked.window))
    if asked.wanted is not None:
        availability = availability_of(scenario, devices, replicate)
        connections.pace = Pace(asked.wanted, connections, availability, draws)
        if _latest and _latest[0] is scenario and _latest[1] == replicate:
            connections.pace.seen = list(_latest[2])
        _latest[:] = scenario, replicate, connections.pace.seen
    return connections


def check_ins_of(scenario: Scenario, devices: Strata, replicate: int, times_s: Sequence[float]) -> Floats:
    """Return how often a device that is available checks in at some times, per second."""
    connections = connections_of(scenario, devices, replicate)
    assert connections is not None
    windows = np.array([to_ms(each) for each in times_s], dtype=np.int64) // connections.every * connections.every
    chance = np.ones(len(windows)) if connections.pace is None else connections.pace.chances(windows // HOUR)
    return 1000 * chance / connections.every
