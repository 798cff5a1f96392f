"""When devices are connected to a server at which they check in: at times of their own, for a while each.

With a number of check-ins that is wanted in a window, the server steers the pace (Bonawitz et al., *Towards Federated
Learning at Scale: System Design*, SysML 2019): in each of its windows a device comes by chance, each hour with another
one. Who comes follows from availability alone, so it can be looked up for any instant, and a run that goes on needs no
state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.availability.batch import Spells
from fedsim.availability.population import PopulationAvailability, Strata
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.common.instants import HOUR, to_ms
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.scenario import Scenario

_DAY = 24  # hours


@dataclass(frozen=True)
class Connections:
    """Device i comes at phase_i + k * every, for whole k, and stays for a window; all in ms.

    It comes for each k, or by the pace that the server steers.
    """

    phase: Ints  # (N,) from 0 to every - 1
    every: int
    window: int
    pace: "Pace | None" = None

    def at(self, clients: Ints, instant: int) -> Bools:
        """Say of each of the clients whether it is connected."""
        number, since = np.divmod(instant - self.phase[clients], self.every)
        return (since < self.window) & self.comes(clients, number)

    def comes(self, clients: Ints, numbers: Ints) -> Bools:
        """Say of each of the clients whether it comes in the window of that number, -1 for the one before its first."""
        if self.pace is None:
            return np.ones(len(clients), dtype=np.bool_)
        return self.pace.comes(clients, numbers, (self.phase[clients] + numbers * self.every) // HOUR)

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
        kept = (begins < goes) & self.comes(clients[spells.who[spell]], number)
        return Spells(spells.who[spell][kept], begins[kept], goes[kept])


class Pace:
    """The chance, hour by hour, with which the server has devices come in a window, so that as many come as it wants.

    It knows how many devices there are, and in the middle of each hour it sees who has come: each stands for as many
    available devices as its chance was small. The chance of an hour is by what was seen a day before; on the first day,
    an hour before.
    """

    def __init__(
        self, wanted: int, phase: Ints, window: int, availability: PopulationAvailability, draws: Stream
    ) -> None:
        self._wanted, self._availability, self._draws = wanted, availability, draws
        self._connections = Connections(phase, window, window, self)
        self._everyone = np.arange(len(phase))
        self._seen: list[float] = [float(len(phase))]  # of the hour before, and of each that has been seen
        self._chances: list[float] = []

    def comes(self, clients: Ints, numbers: Ints, hours: Ints) -> Bools:
        """Say of each of the clients whether it comes in the window of that number, which begins in that hour."""
        chance = self.chances(hours)
        return self._draws.uniforms(clients, numbers + 2) < chance  # 0 is of phases

    def chances(self, hours: Ints) -> Floats:
        """Return the chance in each of some hours; what precedes hour 0 has that of hour 0."""
        while len(self._chances) <= hours.max(initial=0):
            hour = len(self._chances)
            if hour:
                self._seen.append(self._see((hour - 1) * HOUR + HOUR // 2))
            there = self._seen[hour - _DAY + 1 if hour >= _DAY else hour]
            self._chances.append(min(1.0, self._wanted / there))
        return np.array(self._chances)[np.maximum(hours, 0)]

    def came(self, among: Bits, instant: int) -> Bits:
        """Return who of a set of clients, as bits, has come."""
        from fedsim.selection.screened import came_among  # compiles, as the owner of the bits does

        phase, window, key = self._connections.phase, self._connections.window, np.uint64(self._draws.key)
        return came_among(among, instant, phase, window, key, self.chances(np.arange(instant // HOUR + 1)))

    def _see(self, instant: int) -> float:
        clients = self._everyone
        if (possible := self._availability.possible(instant)) is not None:
            clients = np.flatnonzero(np.unpackbits(self.came(possible, instant).view(np.uint8), bitorder="little"))
        clients = clients[self._connections.at(clients, instant)]
        clients = clients[self._availability.at(clients, instant)]
        since = self._connections.phase[clients]
        begun = since + (instant - since) // self._connections.every * self._connections.every
        # Nobody may have come; and no more can be available than there are devices.
        least = 1.0 / self._chances[-1]
        return float(np.clip((1.0 / self.chances(begun // HOUR)).sum(), least, len(self._everyone)))


def connections_of(scenario: Scenario, devices: Strata, replicate: int) -> Connections | None:
    """Return when the clients are connected; None where the server sees all of them at any time."""
    asked = scenario.server.check_ins
    if asked is None:
        return None
    clients, window = len(devices.of_client), to_ms(asked.window)
    draws, every = stream(scenario.own_seed, replicate, Purpose.CHECK_IN), to_ms(asked.every or asked.window)
    phase = (draws.uniforms(np.arange(clients), 0) * every).astype(np.int64)
    pace = None
    if asked.wanted is not None:
        pace = Pace(asked.wanted, phase, window, availability_of(scenario, devices, replicate), draws)
    return Connections(phase, every, window, pace)


def check_ins_of(scenario: Scenario, devices: Strata, replicate: int, times_s: Sequence[float]) -> Floats:
    """Return how often a device that is available checks in at some times, per second."""
    connections = connections_of(scenario, devices, replicate)
    assert connections is not None
    instants = np.array([to_ms(each) for each in times_s], dtype=np.int64)
    chance = np.ones(len(instants)) if connections.pace is None else connections.pace.chances(instants // HOUR)
    return 1000 * chance / connections.every
