"""When shocks happen, which devices they take out, and for how long.

All of it is a pure function of keys, so that both engines see the same.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.availability.batch import Spells, concatenate, merge_touching
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import DAY, FOREVER, each_to_ms
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution

_CHUNK = 64  # random shocks drawn at once
_DRAWS = 4  # of each shock: the time to the next, two for a length
_LONGEST_S = 4.5e12  # 140,000 years: sums of such lengths stay below 2**63 milliseconds
_WINDOW = 7 * DAY
_PAIRS = 1 << 16  # of a client and a shock that are handled at once


class Shocks(NamedTuple):
    """Some shocks, in the order in which they begin: arrays (n,).

    `number` is the index of each, the key of the draws that choose the devices it hits; `starts` and `ends` are
    half-open milliseconds, `FOREVER` where it never ends.
    """

    number: Ints
    starts: Ints
    ends: Ints


def _to_ms(seconds: Floats) -> Ints:
    return each_to_ms(np.minimum(seconds, _LONGEST_S))


class ShockTimes(Protocol):
    """When the shocks of one kind happen in one scope: everywhere, or in a group or zone."""

    last: int = FOREVER
    """The instant after which none begins."""

    def within(self, since: int, until: int) -> Shocks:
        """Return the shocks that run at some instant of [since, until)."""
        ...


class ScheduledShocks(ShockTimes):
    """Shocks at given times: (n,) milliseconds of simulated time."""

    def __init__(self, starts: Ints, ends: Ints) -> None:
        order = np.argsort(starts, kind="stable")
        self.last = int(starts.max())
        self._all = Shocks(order.astype(np.int64), starts[order], ends[order])

    def within(self, since: int, until: int) -> Shocks:
        some = (self._all.starts < until) & (self._all.ends > since)
        return Shocks(self._all.number[some], self._all.starts[some], self._all.ends[some])


class RandomShocks(ShockTimes):
    """Shocks that begin as a Poisson process, stationary from the first instant.

    At time 0 a Poisson number of them runs already, each with what is left of its length (`Distribution.remaining`).
    `key` is that of this kind and scope in the stream for shocks, `every_s` the mean time between two beginnings (a
    millisecond at least), `length` the law of their lengths, and `running` how many run at an instant on average.
    """

    def __init__(self, draws: Stream, key: int, every_s: float, length: Distribution, running: float) -> None:
        self._draws, self._key, self._every_s, self._length = draws, key, every_s, length
        count = poisson_quantile(running, float(draws.uniforms(key, 0)[0]))
        number = np.arange(count)
        u, v = (draws.uniforms(key, _DRAWS * (number + 1) + each) for each in (1, 2))
        # Shocks that run at 0 count as beginning there.
        self._starts, self._ends = np.zeros(count, dtype=np.int64), _to_ms(length.remaining(u, v))
        self._latest = np.maximum.accumulate(self._ends)
        self._reached = 0

    def within(self, since: int, until: int) -> Shocks:
        while self._reached < until:
            number = np.arange(len(self._starts), len(self._starts) + _CHUNK)
            gaps = _to_ms(self._every_s * self._draws.exponentials(self._key, _DRAWS * (number + 1)))
            starts = self._reached + np.cumsum(gaps)
            ends = starts + _to_ms(self._length.draw(self._draws.uniforms(self._key, _DRAWS * (number + 1) + 3)))
            self._starts, self._ends = np.concatenate([self._starts, starts]), np.concatenate([self._ends, ends])
            self._latest = np.maximum.accumulate(np.concatenate([self._latest, ends]))
            self._reached = int(starts[-1])
        last = int(np.searchsorted(self._starts, until, side="left"))
        first = min(int(np.searchsorted(self._latest, since, side="right")), last)
        runs = first + np.flatnonzero(self._ends[first:last] > since)
        return Shocks(runs, self._starts[runs], self._ends[runs])


def poisson_quantile(mean: float, u: float) -> int:
    """Return the least k to which a Poisson law of this mean gives a chance of at least u, summed up from 0."""
    term = total = math.exp(-mean)
    k = 0
    while total < u and term > 0.0:
        k += 1
        term *= mean / k
        total += term
    return k


def shock_key(name: str, scope: str = "") -> int:
    """Return the key of the draws for a shock in a scope, below 2**62."""
    return (zlib.crc32(name.encode()) << 30) | (zlib.crc32(scope.encode()) >> 2 if scope else 0)


@dataclass(frozen=True)
class Layer:
    """One kind of shock in one scope."""

    key: int  # number k of these shocks has index key + k among the draws of a client
    times: ShockTimes  # when they happen
    strata: Bools  # (S,) which strata of the population they concern
    share: float  # chance of a device to be hit
    # how long a device that was hit stays out when the shock is over; None for no longer
    recovery: Distribution | None = None
    endless: bool = False  # whether one of these shocks never ends


@dataclass(frozen=True)
class Outages:
    """All shocks of a run; `stratum` (N,) is that of each device.

    The draws of `hits` choose the devices that a shock hits, those of `recoveries` how long they stay out.
    """

    layers: Sequence[Layer]
    stratum: Ints
    hits: Stream
    recoveries: Stream

    def at(self, clients: Ints, instant: int) -> Bools:
        """Return whether each client is out because of a shock."""
        out = np.zeros(len(clients), dtype=np.bool_)
        out[self.spells(clients, instant, instant + 1).who] = True
        return out

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        """Return when shocks that run within [since, until) take the clients out: not cut, possibly overlapping."""
        return concatenate(self._spells(clients, since, until))

    def reachable(self, client: int, since: int) -> Iterator[tuple[int, int]]:
        """Yield the maximal intervals in which no shock has a client out, in order, from an instant on.

        A last one ends at `FOREVER`. A pair with start == end only says that no interval starts before it.
        """
        own = replace(self, layers=[layer for layer in self.layers if layer.strata[self.stratum[client]]])
        last = max((layer.times.last for layer in own.layers), default=-1)
        free, reached = since, since  # no shock is known to have it out from `free` on
        while free < FOREVER:
            _, starts, ends = own.spells(np.array([client]), reached, reached + _WINDOW)
            for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
                if free < start:
                    yield free, start
                free = max(free, end)
            reached += _WINDOW
            if reached > last and free < FOREVER:
                yield free, FOREVER
                return
            if reached < free < FOREVER:
                yield free, free

    def for_good(self, clients: Ints, until: int) -> Ints:
        """Return from when on each client is out for ever; `FOREVER` where that is not by `until`."""
        found = np.full(len(clients), FOREVER)
        lasting = replace(self, layers=[layer for layer in self.layers if layer.endless])
        who, starts, ends = lasting.spells(clients, 0, until + 1)
        np.minimum.at(found, who[ends == FOREVER], starts[ends == FOREVER])
        return found

    @cached_property
    def may_be_endless(self) -> Bools:
        """(N,) whether a shock may take the device out for ever."""
        found = np.zeros(len(self.stratum), dtype=np.bool_)
        for layer in self.layers:
            found |= layer.endless & layer.strata[self.stratum]
        return found

    def _spells(self, clients: Ints, since: int, until: int) -> Iterator[Spells]:
        for layer in self.layers:
            # A device that recovers may be out long after the shock.
            happening = layer.times.within(since if layer.recovery is None else -FOREVER, until)
            if not len(happening.number):
                continue
            here = np.flatnonzero(layer.strata[self.stratum[clients]])
            step = max(1, _PAIRS // max(1, len(here)))
            for first in range(0, len(happening.number), step):
                number, starts, ends = (column[first : first + step] for column in happening)
                which, who = self._hit(clients[here], layer, number).nonzero()
                who, number, starts, ends = here[who], number[which], starts[which], ends[which]
                if layer.recovery is not None:
                    u = self.recoveries.uniforms(clients[who], layer.key + number)
                    ends = ends + _to_ms(layer.recovery.draw(u))
                lasting = ends > np.maximum(starts, since)
                yield Spells(who[lasting], starts[lasting], ends[lasting])

    def _hit(self, clients: Ints, layer: Layer, number: Ints) -> Bools:
        """Return whether each shock (m,) hits each client (n,): (m, n)."""
        if layer.share >= 1.0:
            return np.ones((len(number), len(clients)), dtype=np.bool_)
        return np.less(self.hits.uniforms(clients, layer.key + number[:, None]), layer.share)


@dataclass(frozen=True)
class ServerOutages:
    """When the server is down."""

    times: Sequence[ShockTimes]

    def up(self, instant: int) -> int:
        """Return the first instant from this one on at which the server is up."""
        while True:
            ends = (int(each.within(instant, instant + 1).ends.max(initial=instant)) for each in self.times)
            if (latest := max(ends, default=instant)) == instant:
                return instant
            instant = latest


def subtract(spells: Spells, outages: Spells, clients: int) -> Spells:
    """Return the spells of availability without the outages, disjoint and not touching.

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
    # The level is 1 where available and without an outage: each outage takes away 2, so nothing else comes to 1.
    level = np.cumsum(steps[order])
    last = np.ones(len(who), dtype=np.bool_)
    last[:-1] = (who[1:] != who[:-1]) | (instants[1:] > instants[:-1])
    who, instants = who[last], instants[last]
    opens = np.flatnonzero(level[last] == 1)
    return concatenate([kept, merge_touching(who[opens], instants[opens], instants[opens + 1])])
