"""Shocks, events that take many devices out at once: when they happen, whom they hit, and what is left available.

All of it is a pure function of keys, so that both engines see the same.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability.batch import Reasons
from fedsim.availability.civil import Place
from fedsim.availability.population import PopulationAvailability, Strata, population_availability
from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import Mistake, PluginError
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import DAY, FOREVER, SECOND, each_to_ms, readable_time, to_ms
from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.reasons import Reason
from fedsim.population import Population
from fedsim.population.distributions import Distribution, check_distributions, distribution
from fedsim.scenario import Scenario
from fedsim.scenario.shocks import Rates, Shock, rates

_DRAWN = 64  # random shocks at once
_DRAWS = 4  # of each shock: the time to the next, two for a length
_LONGEST_S = 4.5e12  # 140,000 years: sums of such lengths stay below 2**63 milliseconds
_LONGEST_MEAN_S = 1e12
_WINDOW = 7 * DAY
_PAIRS = 1 << 16  # of a client and a shock that are handled at once


def _to_ms(seconds: Floats) -> Ints:
    return each_to_ms(np.minimum(seconds, _LONGEST_S))


class ScheduledShocks:
    """Shocks at given times: (n,) milliseconds of simulated time, `FOREVER` for no end; after `last` none begins."""

    def __init__(self, starts: Ints, ends: Ints) -> None:
        self.last = int(starts.max())
        self._all = Spells(np.arange(len(starts)), starts, ends, len(starts)).where(np.argsort(starts, kind="stable"))

    def within(self, since: int, until: int) -> Spells:
        """Return the shocks that run at some instant of [since, until), by their beginnings; `who` are their numbers.

        These are keys of the draws that choose the devices which each of them hits.
        """
        return self._all.where((self._all.starts < until) & (self._all.ends > since))


class RandomShocks:
    """Shocks that begin as a Poisson process, stationary from the first instant.

    At time 0 a Poisson number of them runs already, each with what is left of its length (`Distribution.remaining`).
    `key` is that of this kind and scope in the stream for shocks, `every_s` the mean time between two beginnings (a
    millisecond at least), `length` the law of their lengths, and `running` how many run at an instant on average.
    """

    last = FOREVER

    def __init__(self, draws: Stream, key: int, every_s: float, length: Distribution, running: float) -> None:
        self._draws, self._key, self._every_s, self._length = draws, key, every_s, length
        count = poisson_quantile(running, float(draws.uniforms(key, 0)[0]))
        number = np.arange(count)
        u, v = (draws.uniforms(key, _DRAWS * (number + 1) + each) for each in (1, 2))
        # Shocks that run at 0 count as beginning there.
        self._starts, self._ends = np.zeros(count, dtype=np.int64), _to_ms(length.remaining(u, v))
        self._latest = np.maximum.accumulate(self._ends)
        self._reached = 0

    def within(self, since: int, until: int) -> Spells:
        """Return the shocks as `ScheduledShocks.within` does."""
        while self._reached < until:
            number = np.arange(len(self._starts), len(self._starts) + _DRAWN)
            gaps = _to_ms(self._every_s * self._draws.exponentials(self._key, _DRAWS * (number + 1)))
            starts = self._reached + np.cumsum(gaps)
            ends = starts + _to_ms(self._length.draw(self._draws.uniforms(self._key, _DRAWS * (number + 1) + 3)))
            self._starts, self._ends = np.concatenate([self._starts, starts]), np.concatenate([self._ends, ends])
            self._latest = np.maximum.accumulate(np.concatenate([self._latest, ends]))
            self._reached = int(starts[-1])
        last = int(np.searchsorted(self._starts, until, side="left"))
        first = min(int(np.searchsorted(self._latest, since, side="right")), last)
        runs = first + np.flatnonzero(self._ends[first:last] > since)
        return Spells(runs, self._starts[runs], self._ends[runs], last)


ShockTimes: TypeAlias = ScheduledShocks | RandomShocks
"""When the shocks of one kind happen in one scope: everywhere, or in a group or zone."""


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
    """All that has devices of a run out beside their own life; `stratum` (N,) is that of each device.

    The draws of `hits` choose the devices that a shock hits, those of `recoveries` how long they stay out. `joins` and
    `leaves` (N,) are the instants between which each device is one of the population; None for always.
    """

    layers: Sequence[Layer]
    stratum: Ints
    hits: Stream
    recoveries: Stream
    joins: Ints | None = None
    leaves: Ints | None = None

    def at(self, clients: Ints, instant: int) -> Bools:
        """Return whether each client is out because of a shock."""
        return self.spells(clients, instant, instant + 1).has

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        """Return when shocks that run within [since, until) take the clients out: not cut, possibly overlapping."""
        return Spells.together(self._spells(clients, since, until), len(clients))

    def reachable(self, client: int, since: int) -> Iterator[tuple[int, int]]:
        """Yield when no shock has a client out, from an instant on, in pieces as in `AvailabilityModel.intervals`."""
        outages = replace(self, layers=[layer for layer in self.layers if layer.strata[self.stratum[client]]])
        last = max((layer.times.last for layer in outages.layers), default=-1)
        if self.joins is not None and self.leaves is not None:
            last = max(last, *(int(each[client]) for each in (self.joins, self.leaves) if each[client] < FOREVER))
        while since < FOREVER:
            until = since + _WINDOW if since <= last else FOREVER
            free = outages.spells(np.array([client]), since, until).complement(since, until)
            yield from zip(free.starts.tolist(), free.ends.tolist(), strict=True)
            if until < FOREVER:
                yield until, until
            since = until

    def for_good(self, clients: Ints, until: int) -> Ints:
        """Return from when on each client is out for ever; `FOREVER` where that is not by `until`."""
        instants = np.full(len(clients), FOREVER)
        lasting = replace(self, layers=[layer for layer in self.layers if layer.endless])
        spells = lasting.spells(clients, 0, until + 1)
        endless = spells.where(spells.ends == FOREVER)
        np.minimum.at(instants, endless.who, endless.starts)
        return instants

    def _spells(self, clients: Ints, since: int, until: int) -> Iterator[Spells]:
        if self.joins is not None and self.leaves is not None:
            joins, leaves = self.joins[clients], self.leaves[clients]
            early, gone = np.flatnonzero(joins > since), np.flatnonzero(leaves < until)
            yield Spells(early, np.zeros_like(early), joins[early], len(clients))
            yield Spells(gone, leaves[gone], np.full_like(gone, FOREVER), len(clients))
        for layer in self.layers:
            # A device that recovers may be out long after the shock.
            happening = layer.times.within(since if layer.recovery is None else -FOREVER, until)
            if not len(happening.who):
                continue
            here = np.flatnonzero(layer.strata[self.stratum[clients]])
            step = max(1, _PAIRS // max(1, len(here)))
            for first in range(0, len(happening.who), step):
                number, starts, ends = (column[first : first + step] for column in happening)
                which, who = self._hit(clients[here], layer, number).nonzero()
                who, number, starts, ends = here[who], number[which], starts[which], ends[which]
                if layer.recovery is not None:
                    u = self.recoveries.uniforms(clients[who], layer.key + number)
                    ends = ends + _to_ms(layer.recovery.draw(u))
                yield Spells(who, starts, ends, len(clients)).where(ends > np.maximum(starts, since))

    def _hit(self, clients: Ints, layer: Layer, number: Ints) -> Bools:
        """Return whether each shock (m,) hits each client (n,): (m, n)."""
        if layer.share >= 1.0:
            return np.ones((len(number), len(clients)), dtype=np.bool_)
        return np.less(self.hits.uniforms(clients, layer.key + number[:, None]), layer.share)


def check_shocks(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the mistakes in a scenario's shocks: unknown groups and zones, laws that fail, too many at once."""
    mistakes = []
    for index, shock in enumerate(scenario.shocks):
        for key, asked, names in (
            ("groups", shock.groups, population.group_names),
            ("zones", shock.zones, population.zone_names),
        ):
            for position, name in enumerate(asked or ()):
                if name not in names:
                    message = f"no device {'is in the group' if key == 'groups' else 'lives in'} {name!r}"
                    message += did_you_mean(name, names, or_known=True)
                    mistakes.append(scenario.mistake(("shocks", index, key, position), message))
        wrong = [scenario.mistake(("shocks", index, *path), message) for path, message in check_distributions(shock)]
        mistakes += wrong
        if shock.kind.by_chance and not wrong:
            try:
                _rates_of(shock)
            except (ValueError, PluginError) as error:
                mistakes.append(scenario.mistake(("shocks", index), str(error)))
    return mistakes


def outages_of(scenario: Scenario, devices: Strata, replicate: int) -> Outages | None:
    """Return the outages of a valid scenario's devices in one replicate; None without shocks and churn."""
    draws, hits, recoveries = (
        stream(scenario.seed, replicate, purpose)
        for purpose in (Purpose.SHOCK, Purpose.SHOCK_HIT, Purpose.SHOCK_RECOVERY)
    )
    layers = [layer for shock in scenario.shocks for layer in _layers(shock, devices, draws)]
    if not layers and devices.joins is None:
        return None
    return Outages(layers, devices.of_client, hits, recoveries, devices.joins, devices.leaves)


def server_shocks(scenario: Scenario, replicate: int) -> list[ShockTimes]:
    """Return when a scenario's server is down, for each shock of it."""
    draws = stream(scenario.seed, replicate, Purpose.SHOCK)
    place = Place(scenario.start, ZoneInfo("UTC"))
    return [_times(shock, "", place, draws) for shock in scenario.shocks if shock.of == "server"]


def up_again(times: Sequence[ShockTimes], instant: int) -> int:
    """Return the first instant from this one on at which a server is up."""
    while True:
        ends = (int(each.within(instant, instant + 1).ends.max(initial=instant)) for each in times)
        if (latest := max(ends, default=instant)) == instant:
            return instant
        instant = latest


def describe_shocks(scenario: Scenario) -> Iterator[str]:
    """Yield a line for each shock that comes by chance: how often and how long, and what it does to two devices."""
    for shock in scenario.shocks:
        if not shock.kind.by_chance:
            continue
        figures, length = _rates_of(shock)
        where = {"zone": " in each time zone", "group": " in each group"}.get(shock.of, "")
        apart, lasts = readable_time(length / figures.running), readable_time(length)
        often = f"{shock.name}: about every {apart}{where} for {lasts} on average"
        if shock.of == "server":
            yield f"{often}, nobody can reach the server: {figures.down:.2%} of the time"
            continue
        hit = f"{figures.share:.3g} of its devices {'are' if figures.share != 1 else 'is'} out"
        pairs = f"with a correlation of {figures.correlation:.3f} between two of them"
        yield f"{often}, {hit}: {figures.down:.2%} of a device's time, {pairs}"


def _rates_of(shock: Shock) -> tuple[Rates, float]:
    """Return the rates of a shock by chance, and the mean of its lengths in seconds."""
    length = distribution(shock.length)
    if not 0.0 < length.mean < _LONGEST_MEAN_S:
        raise ValueError(f"the mean of length must be above 0 and finite, but is {length.mean:g} s")
    figures = rates(shock, length.mean)
    if length.mean < figures.running / SECOND:
        raise ValueError("these shocks must come less often than once in a millisecond, the step of simulated time")
    return figures, length.mean


def _layers(shock: Shock, devices: Strata, draws: Stream) -> Iterator[Layer]:
    """Yield a layer for each scope (everywhere, a group or a zone) in which a shock happens at times of its own."""
    asked = [
        (shock.zones is None or zone in shock.zones) and (shock.groups is None or group in shock.groups)
        for group, zone in devices.names
    ]
    if shock.of == "zone" or shock.kind.local:
        scopes = [zone for _, zone in devices.names]
    else:
        scopes = [group if shock.of == "group" else "" for group, _ in devices.names]
    share = _rates_of(shock)[0].share if shock.kind.by_chance else (shock.share or 1.0)
    recovery = None if shock.recovery is None else distribution(shock.recovery)
    endless = recovery is None and any(window.end is None for window in shock.windows or ())
    for scope in dict.fromkeys(scopes):
        concerned = np.array(asked) & np.array([each == scope for each in scopes])
        if concerned.any():
            times = _times(shock, scope, devices.places[scopes.index(scope)], draws)
            yield Layer(shock_key(shock.name), times, concerned, share, recovery, endless)


def _times(shock: Shock, scope: str, home: Place, draws: Stream) -> ShockTimes:
    if shock.kind.by_chance:
        figures, mean_s = _rates_of(shock)
        every_s, length = mean_s / figures.running, distribution(shock.length)
        return RandomShocks(draws, shock_key(shock.name, scope), every_s, length, figures.running)
    windows: Sequence[tuple[datetime, datetime | None]] = [(each.begin, each.end) for each in shock.windows or ()]
    if shock.days is not None:
        midnights = [datetime.combine(day, time()) for day in shock.days]
        windows = [(midnight, midnight + timedelta(days=1)) for midnight in midnights]
    starts = np.array([_instant(home, begin) for begin, _ in windows])
    never = FOREVER if shock.recovery is None else -FOREVER
    ends = np.array([never if end is None else _instant(home, end) for _, end in windows])
    return ScheduledShocks(starts, np.maximum(ends, starts))


def _instant(home: Place, moment: datetime) -> int:
    """Return the instant of simulated time, by the zone that is written or by the local clock."""
    return to_ms(home.seconds(moment) if moment.tzinfo is None else (moment - home.start).total_seconds())


@dataclass(eq=False)
class ShockedAvailability(PopulationAvailability):
    """The availability of all devices less the outages by shocks; the batches are those without shocks."""

    outages: Outages

    @property
    def may_leave(self) -> Bools:
        leaving = super().may_leave
        for layer in self.outages.layers:
            leaving = leaving | (layer.strata & layer.endless)[self.stratum]
        return leaving if self.outages.leaves is None else leaving | (self.outages.leaves < FOREVER)

    def at(self, clients: Ints, instant: int) -> Bools:
        answer = super().at(clients, instant)
        answer[answer] = ~self.outages.at(clients[answer], instant)
        return answer

    def reasons(self, clients: Ints, instant: int) -> Reasons:
        reasons = super().reasons(clients, instant)
        reasons[self.outages.at(clients, instant)] |= int(Reason.SHOCK)
        return reasons

    def ends(self, clients: Ints, instant: int, until: Ints) -> Ints:
        ends = super().ends(clients, instant, until)
        if len(clients):
            out = self.outages.spells(clients, instant, int(until.max()) + 1)
            out = out.where(out.starts <= until[out.who])
            np.minimum.at(ends, out.who, out.starts)
        return ends

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        spells, out = super().spells(clients, since, until), self.outages.spells(clients, since, until)
        return spells.less(out) if len(out.who) else spells

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        """Return from when each client is never available again; `FOREVER` if after `until`.

        It counts from its own last end or an endless shock, even if another shock has it out before.
        """
        for_good = self.outages.for_good(clients, until)
        return np.minimum(super().leaves(clients, since, until), np.maximum(for_good, since))


def availability_of(scenario: Scenario, devices: Strata, replicate: int) -> PopulationAvailability:
    """Return when all devices of a scenario without mistakes are available in one replicate."""
    draws = stream(scenario.seed, replicate, Purpose.AVAILABILITY)
    unshocked = population_availability(devices.models, devices.places, devices.of_client, draws)
    outages = outages_of(scenario, devices, replicate)
    if outages is None:
        return unshocked
    return ShockedAvailability(unshocked.batches, unshocked.batch_of_stratum, unshocked.stratum, outages)
