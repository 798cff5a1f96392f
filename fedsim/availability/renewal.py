"""Devices that are on and off by turns, with independent lengths: an alternating renewal process for each device."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Spells, joined, together
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.place import Place
from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import FOREVER, SECOND, each_to_ms
from fedsim.common.keyed import Stream
from fedsim.common.registry import OptionError
from fedsim.population.distributions import Distribution, distribution
from fedsim.scenario.availability import Length

_BLOCK = 64  # drawn at once: drawing one by one costs ten times as much
_LEAST_CYCLE = 1.001  # milliseconds; in less, every length may be rounded to 0, and means may be slightly inexact
_SPELLS = 16  # of each device on average, that it pays to work out at once
_AT_ONCE, _MOST = 1 << 16, 64  # lengths that are worked out at once, of all devices and of each
_EXTREMES = np.array([2.0**-54, 1.0 - 2.0**-53])  # of uniform draws
LONGEST = 1 << 52
"""140,000 years: a state that ends then or later lasts for ever, so that sums of lengths stay below 2**63."""


@dataclass(frozen=True)
class Process:
    """The laws of the lengths on and off, of a process that is stationary from the first instant.

    Draw 0 decides whether the device starts on, with probability mean_on / (mean_on + mean_off); draw k >= 1 decides
    the k-th length. The first length is what is left of a running interval (`Distribution.remaining`), so the process
    looks at time 0 as it does at any other. Lengths are whole milliseconds, `LONGEST` at most; one of 0 is passed over.
    """

    on: Distribution
    off: Distribution

    @property
    def cycle(self) -> float:
        """Mean milliseconds from one beginning to the next."""
        return (self.on.mean + self.off.mean) * SECOND

    @property
    def may_leave(self) -> bool:
        """Whether a device may be off for ever."""
        longest = max(self.off.draw(_EXTREMES).max(), self.off.remaining(_EXTREMES, np.ones(2)).max())
        return bool(longest * SECOND > LONGEST / 2)

    def starting(self, clients: Clients, draws: Stream) -> tuple[Mask, Ints]:
        """Return whether each device starts on, and how long it stays so."""
        mean_on, mean_off = self.on.mean, self.off.mean
        share = mean_on / (mean_on + mean_off)
        lot = draws.uniforms(clients, 0)
        starts_on = lot < share
        # Given the side on which it fell, the lot is uniform there: a second draw at no cost.
        rest = np.where(starts_on, lot / share, (lot - share) / (1 - share) if share < 1 else 0.0)
        u = draws.uniforms(clients, 1)
        return starts_on, _whole(np.where(starts_on, self.on.remaining(u, rest), self.off.remaining(u, rest)))

    def lengths(self, on: Mask, u: Floats) -> Ints:
        """Return complete lengths from uniform draws, of the state that each is of."""
        return _whole(np.where(on, self.on.draw(u), self.off.draw(u)))


def _whole(seconds: Floats) -> Ints:
    return each_to_ms(np.minimum(seconds, LONGEST / SECOND))


def _or_forever(ends: Ints) -> Ints:
    return np.where(ends < LONGEST, ends, FOREVER)


class RenewalAvailability(ExactModel):
    """An alternating renewal process for each device.

    Parameters
    ----------
    on, off
        The laws of the lengths, as the scenario has them.

    Raises
    ------
    OptionError
        If a mean is not above 0 and finite, or both together are no more than a millisecond.
    """

    def __init__(self, on: Length, off: Length) -> None:
        self.process = Process(distribution(on), distribution(off))
        for name, law in (("on", self.process.on), ("off", self.process.off)):
            if not 0 < law.mean < math.inf:
                raise OptionError(name, f"must be a law with a mean above 0 and finite, not {law.mean:g}")
        if self.process.cycle < _LEAST_CYCLE:
            raise OptionError(
                "on",
                "on and off together must last longer than a millisecond on average, the step of simulated time, not "
                f"{self.process.cycle:g} ms",
            )

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:  # noqa: ARG002
        """Return the intervals on of one device; they depend on its key alone."""
        (starts_on,), (left,) = self.process.starting(np.array([client]), draws)
        on, since, first = bool(starts_on), 0, 1  # since when the device has been in this state
        while True:
            u = draws.uniforms(client, np.arange(first, first + _BLOCK))
            lengths = self.process.lengths((np.arange(_BLOCK) % 2 == 0) == starts_on, u)
            if first == 1:
                lengths[0] = left
            for length in lengths.tolist():
                end = since + length if since + length < LONGEST else FOREVER
                if on and length:
                    yield since, end
                if end == FOREVER:
                    return
                since, on = end, not on
            first += _BLOCK

    def batches(self, homes: Sequence[tuple[Place, Clients]], draws: Stream) -> "list[RenewalBatch]":
        """Return one batch for all: it does not matter where they live."""
        members = np.sort(np.concatenate([members for _, members in homes]))
        return [RenewalBatch(self.process, members, draws)] * len(homes)


@dataclass
class Standing:
    """Where devices stand: arrays (n,).

    Attributes
    ----------
    number
        Index of the running length, 1 for the first.
    on, end
        State now and its end, `FOREVER` where it lasts for ever.
    """

    number: Ints
    on: Mask
    end: Ints

    def of(self, places: NDArray[np.intp] | Clients) -> "Standing":
        """Return a copy of the standing of some of the devices."""
        return Standing(self.number[places], self.on[places], self.end[places])

    def put(self, places: NDArray[np.intp] | Clients, now: "Standing") -> None:
        """Remember the standing of some of the devices."""
        self.number[places], self.on[places], self.end[places] = now.number, now.on, now.end


class RenewalBatch(Batch):
    """Devices with one pair of laws; `members` (n,) are their indices in ascending order."""

    follows = True

    def __init__(self, process: Process, members: Clients, draws: Stream) -> None:
        self._process, self._draws, self._members = process, draws, members
        self.foreseeable = int(min(_SPELLS * process.cycle, FOREVER))
        self.may_leave = process.may_leave
        self._first = int(members[0])
        self._together = int(members[-1]) - self._first == len(members) - 1
        on, left = process.starting(members, draws)
        self._standing = Standing(np.ones(len(members), dtype=np.int64), on, _or_forever(left))

    def at(self, clients: Clients, instant: int) -> Mask:
        """Follow each device up to the instant."""
        places = self._places(clients)
        behind = (self._standing.end[places] <= instant).nonzero()[0]
        if len(behind):
            late = places[behind]
            self._standing.put(late, self._advanced(clients[behind], self._standing.of(late), instant))
        return self._standing.on[places]

    def spells(self, clients: Clients, since: int, until: int) -> Spells:
        """Follow a copy of the devices through the window."""
        parts = list[Spells]()
        last, touches = np.zeros(len(clients), dtype=np.int64), False
        for who, begun, now in self._states(clients, since, until):
            # A length of 0 is passed over, and the device stays on.
            touches |= bool(parts) and bool((now.number - last[who]).max() > 1)
            parts.append(Spells(who[now.on], begun[now.on], np.minimum(now.end, until)[now.on]))
            last[who] = now.number
        found = together(parts)
        if not touches:
            return found
        order = np.lexsort((found.starts, found.who))
        return joined(found.who[order], found.starts[order], found.ends[order])

    def leaves(self, clients: Clients, since: int, until: int) -> Ints:
        """Find those that are off for ever."""
        gone = np.full(len(clients), FOREVER)
        for who, begun, now in self._states(clients, since, until):
            last = (now.end == FOREVER) & ~now.on
            gone[who[last]] = begun[last]
        return gone

    def _states(self, clients: Clients, since: int, until: int) -> Iterator[tuple[NDArray[np.intp], Ints, Standing]]:
        """Yield the states within a window, one after the other: of whom, since when, and where they stand."""
        now = self._advanced(clients, self._standing.of(self._places(clients)), since)
        who, begun = np.arange(len(clients)), np.full(len(clients), since)
        while len(who):
            yield who, begun, now
            further = np.flatnonzero(now.end < until)
            who, begun, now = who[further], now.end[further], now.of(further)
            now = self._advanced(clients[who], now, begun)

    def _places(self, clients: Clients) -> Clients | NDArray[np.intp]:
        return clients - self._first if self._together else np.searchsorted(self._members, clients)

    def _advanced(self, clients: Clients, now: Standing, instant: int | Ints) -> Standing:
        """Go on until every device's state ends after the instant."""
        limits = np.broadcast_to(np.minimum(instant, LONGEST - 1), now.end.shape)
        behind = (now.end <= limits).nonzero()[0]
        while len(behind):
            before, limit = now.of(behind), limits[behind]
            after = self._beyond(clients[behind], before, limit, self._steps(limit - before.end))
            now.put(behind, after)
            behind = behind[after.end <= limit]
        return now

    def _beyond(self, clients: Clients, before: Standing, limit: Ints, steps: int) -> Standing:
        """Return where devices stand when the state ends after a limit (n,), or as many lengths later as steps."""
        further = np.arange(1, steps + 1)
        numbers, on = before.number[:, None] + further, before.on[:, None] ^ (further % 2 == 1)
        lengths = self._process.lengths(on, self._draws.uniforms(clients[:, None], numbers))
        ends = before.end[:, None] + np.cumsum(lengths, axis=1)
        # Ends never fall: the first that is beyond the limit comes after all that are not.
        last = np.minimum((ends <= limit[:, None]).sum(axis=1), steps - 1)
        every = np.arange(len(clients))
        return Standing(numbers[every, last], on[every, last], _or_forever(ends[every, last]))

    def _steps(self, missing: Ints) -> int:
        """Return how many lengths will probably do for most who are behind by so much, as far as memory allows.

        It makes no difference to where they come out.
        """
        likely = 2 * float(missing.mean()) / self._process.cycle
        return int(max(1.0, min(1.3 * likely + 2.0, _AT_ONCE / len(missing), _MOST))) if likely > 1.0 else 1
