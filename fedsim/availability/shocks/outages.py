"""Whom shocks take out, and when: a pure function of their keys, so that both engines see the same."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.availability.batch import Clients, Mask, Spells, joined, together
from fedsim.availability.shocks.calendar import Calendar
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution


def shock_key(name: str, place: str = "") -> int:
    """Return the key of a shock, and of a place that it befalls, among the draws for shocks: below 2**62."""
    return (zlib.crc32(name.encode()) << 30) | (zlib.crc32(place.encode()) >> 2 if place else 0)


@dataclass(frozen=True)
class Layer:
    """One kind of shock in one place.

    Attributes
    ----------
    key
        Of the shock; number k of it has index key + k among the draws of a client.
    calendar
        When it happens.
    cells
        (C,) cells of the population that it befalls.
    share
        Chance of a device to be hit.
    recovery
        Law of how long a device that was hit stays out when it is over; None for no longer.
    ever
        Whether there is a shock that never ends.
    """

    key: int
    calendar: Calendar
    cells: Bools
    share: float
    recovery: Distribution | None = None
    ever: bool = False


@dataclass(frozen=True)
class Outages:
    """All shocks of a run.

    Attributes
    ----------
    layers
        Each kind in each place.
    cell
        (N,) cell of each device.
    hits, recoveries
        The streams that say whom a shock hits, and for how long.
    """

    layers: Sequence[Layer]
    cell: Ints
    hits: Stream
    recoveries: Stream

    def at(self, clients: Clients, instant: float) -> Mask:
        """Say of each client whether a shock has taken it out."""
        out = np.zeros(len(clients), dtype=np.bool_)
        for spells in self._spells(clients, instant, float(np.nextafter(instant, np.inf))):
            out[spells.who] = True
        return out

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Return when shocks that run within [since, until) take the clients out: whole; they may overlap."""
        return together(self._spells(clients, since, until))

    def for_good(self, clients: Clients, until: float) -> Floats:
        """Return from when on each client is out for ever; infinite where that is not by `until`."""
        found = np.full(len(clients), np.inf)
        lasting = [layer for layer in self.layers if layer.ever]
        for who, starts, ends in self._spells(clients, 0.0, float(np.nextafter(until, np.inf)), lasting):
            ever = ends == np.inf
            np.minimum.at(found, who[ever], starts[ever])
        return found

    def _spells(
        self, clients: Clients, since: float, until: float, layers: Sequence[Layer] | None = None
    ) -> Iterator[Spells]:
        for layer in self.layers if layers is None else layers:
            # A device that recovers may be out long after the shock.
            from_s = since if layer.recovery is None else -np.inf
            happening = layer.calendar.within(from_s, until)
            if not len(happening.number):
                continue
            here = np.flatnonzero(layer.cells[self.cell[clients]])
            for number, start, end in zip(*(column.tolist() for column in happening), strict=True):
                who = here[self._hit(clients[here], layer, number)]
                ends = np.full(len(who), end)
                if layer.recovery is not None:
                    ends += layer.recovery.draw(self.recoveries.uniforms(clients[who], layer.key + number))
                lasting = ends > max(start, since)
                yield Spells(who[lasting], np.full(int(lasting.sum()), start), ends[lasting])

    def _hit(self, clients: Clients, layer: Layer, number: int) -> Mask:
        if layer.share >= 1.0:
            return np.ones(len(clients), dtype=np.bool_)
        return np.less(self.hits.uniforms(clients, layer.key + number), layer.share)


@dataclass(frozen=True)
class ServerOutages:
    """When the server is down."""

    calendars: Sequence[Calendar]

    def up_s(self, instant: float) -> float:
        """Return from when on the server is up: the instant itself, unless it is down then."""
        while True:
            after = float(np.nextafter(instant, np.inf))
            ends = [each.within(instant, after).ends.max(initial=instant) for each in self.calendars]
            latest = float(max(ends, default=instant))
            if latest <= instant:
                return instant
            instant = latest


def without(spells: Spells, outages: Spells, clients: int) -> Spells:
    """Return what is left of spells of availability, whole and disjoint, when outages are taken out of them.

    Parameters
    ----------
    spells
        Disjoint for each client.
    outages
        They may overlap.
    clients
        How many there are.
    """
    concerned = np.zeros(clients, dtype=np.bool_)
    concerned[outages.who] = True
    touched = concerned[spells.who]
    kept = Spells(spells.who[~touched], spells.starts[~touched], spells.ends[~touched])
    who = np.concatenate([spells.who[touched], spells.who[touched], outages.who, outages.who])
    instants = np.concatenate([spells.starts[touched], spells.ends[touched], outages.starts, outages.ends])
    sizes = [int(touched.sum())] * 2 + [len(outages.who)] * 2
    steps = np.repeat(np.array([1, -1, -2, 2]), sizes)
    order = np.lexsort((instants, who))
    who, instants = who[order], instants[order]
    # 1 where available and no outage runs; each outage takes away 2, so that nothing else comes to 1.
    level = np.cumsum(steps[order])
    last = np.ones(len(who), dtype=np.bool_)
    last[:-1] = (who[1:] != who[:-1]) | (instants[1:] > instants[:-1])
    who, instants, free = who[last], instants[last], level[last] == 1
    opens = np.flatnonzero(free)
    return together([kept, joined(who[opens], instants[opens], instants[opens + 1])])
