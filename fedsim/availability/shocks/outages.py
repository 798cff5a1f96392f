"""Whom shocks take out, and when: a pure function of their keys, so that both engines see the same."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedsim.availability.batch import Clients, Mask, Spells, joined, together
from fedsim.availability.shocks.calendar import Calendar, drawn
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution

_AT_ONCE = 7 * DAY
_PAIRS = 1 << 16  # of a client and a shock that are looked at together


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

    def at(self, clients: Clients, instant: int) -> Mask:
        """Say of each client whether a shock has taken it out."""
        out = np.zeros(len(clients), dtype=np.bool_)
        out[self.spells(clients, instant, instant + 1).who] = True
        return out

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Return when shocks that run within [since, until) take the clients out: whole; they may overlap."""
        return together(self._spells(clients, since, until))

    def reachable(self, client: int, since: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals, as long as can be, in which no shock has a client out, from an instant on.

        They are in order; if there is a last one, it ends at `FOREVER`. After days without any comes a pair with
        start == end: none starts before it.
        """
        own = replace(self, layers=[layer for layer in self.layers if layer.cells[self.cell[client]]])
        last = max((layer.calendar.last for layer in own.layers), default=-1)
        free, reached = since, since  # free: from when on no shock is known of that has it out
        while free < FOREVER:
            _, starts, ends = own.spells(np.array([client]), reached, reached + _AT_ONCE)
            for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
                if free < start:
                    yield free, start
                free = max(free, end)
            reached += _AT_ONCE
            if reached > last and free < FOREVER:
                yield free, FOREVER
                return
            if reached < free < FOREVER:
                yield free, free

    def for_good(self, clients: Clients, until: int) -> Ints:
        """Return from when on each client is out for ever; `FOREVER` where that is not by `until`."""
        found = np.full(len(clients), FOREVER)
        lasting = replace(self, layers=[layer for layer in self.layers if layer.ever])
        who, starts, ends = lasting.spells(clients, 0, until + 1)
        np.minimum.at(found, who[ends == FOREVER], starts[ends == FOREVER])
        return found

    @cached_property
    def ever(self) -> Mask:
        """(N,) whom a shock may take out for ever."""
        found = np.zeros(len(self.cell), dtype=np.bool_)
        for layer in self.layers:
            found |= layer.ever & layer.cells[self.cell]
        return found

    def _spells(self, clients: Clients, since: int, until: int) -> Iterator[Spells]:
        for layer in self.layers:
            # A device that recovers may be out long after the shock.
            happening = layer.calendar.within(since if layer.recovery is None else -FOREVER, until)
            if not len(happening.number):
                continue
            here = np.flatnonzero(layer.cells[self.cell[clients]])
            step = max(1, _PAIRS // max(1, len(here)))
            for first in range(0, len(happening.number), step):
                number, starts, ends = (column[first : first + step] for column in happening)
                which, who = self._hit(clients[here], layer, number).nonzero()
                who, number, starts, ends = here[who], number[which], starts[which], ends[which]
                if layer.recovery is not None:
                    lots = self.recoveries.uniforms(clients[who], layer.key + number)
                    ends = ends + drawn(layer.recovery.draw(lots))
                lasting = ends > np.maximum(starts, since)
                yield Spells(who[lasting], starts[lasting], ends[lasting])

    def _hit(self, clients: Clients, layer: Layer, number: Ints) -> Mask:
        """Say for each shock (m,) and each client (n,) whether it is hit: (m, n)."""
        if layer.share >= 1.0:
            return np.ones((len(number), len(clients)), dtype=np.bool_)
        return np.less(self.hits.uniforms(clients, layer.key + number[:, None]), layer.share)


@dataclass(frozen=True)
class ServerOutages:
    """When the server is down."""

    calendars: Sequence[Calendar]

    def up(self, instant: int) -> int:
        """Return from when on the server is up: the instant itself, unless it is down then."""
        while True:
            ends = (int(each.within(instant, instant + 1).ends.max(initial=instant)) for each in self.calendars)
            if (latest := max(ends, default=instant)) == instant:
                return instant
            instant = latest


def without(spells: Spells, outages: Spells, clients: int) -> Spells:
    """Return what is left of spells of availability, whole and disjoint, when outages are taken out of them.

    The spells of each client are disjoint; the outages may overlap. `clients` is the number of clients.
    """
    concerned = np.zeros(clients, dtype=np.bool_)
    concerned[outages.who] = True
    touched = concerned[spells.who]
    kept = Spells(spells.who[~touched], spells.starts[~touched], spells.ends[~touched])
    own = spells.who[touched]
    who = np.concatenate([own, own, outages.who, outages.who])
    instants = np.concatenate([spells.starts[touched], spells.ends[touched], outages.starts, outages.ends])
    steps = np.repeat([1, -1, -2, 2], [len(own), len(own), len(outages.who), len(outages.who)])
    order = np.lexsort((instants, who))
    who, instants = who[order], instants[order]
    # 1 where available and no outage runs; each outage takes away 2, so that nothing else comes to 1.
    level = np.cumsum(steps[order])
    last = np.ones(len(who), dtype=np.bool_)
    last[:-1] = (who[1:] != who[:-1]) | (instants[1:] > instants[:-1])
    who, instants = who[last], instants[last]
    opens = np.flatnonzero(level[last] == 1)
    return together([kept, joined(who[opens], instants[opens], instants[opens + 1])])
