"""The alternating renewal process, and many of them at once, each followed from where it was last asked about."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Batch, Clients, Mask, Spells, joined, together
from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution

_SPELLS = 16  # of each device on average, that it pays to work out at once
_AT_ONCE, _MOST = 1 << 16, 64  # lengths that are worked out at once, of all devices and of each
FOREVER = 1e13  # 300,000 years: heavy tails may reach further than seconds can be told apart


@dataclass(frozen=True)
class Process:
    """The laws of the lengths on and off, of a process that is stationary from the first instant.

    Draw 0 decides whether the device starts on, with probability mean_on / (mean_on + mean_off); draw k >= 1 decides
    the k-th length. The first length is what is left of a running interval (`Distribution.remaining`), so the process
    looks at time 0 as it does at any other.
    """

    on: Distribution
    off: Distribution

    def starting(self, clients: Clients, draws: Stream) -> tuple[Mask, Floats]:
        """Return whether each device starts on, and how long it stays so."""
        mean_on, mean_off = self.on.mean, self.off.mean
        share = mean_on / (mean_on + mean_off)
        lot = draws.uniforms(clients, 0)
        starts_on = lot < share
        # Given the side on which it fell, the lot is uniform there: a second draw at no cost.
        rest = np.where(starts_on, lot / share, (lot - share) / (1 - share) if share < 1 else 0.0)
        u = draws.uniforms(clients, 1)
        return starts_on, np.where(starts_on, self.on.remaining(u, rest), self.off.remaining(u, rest))

    def lengths(self, on: Mask, u: Floats) -> Floats:
        """Return whole lengths from uniform draws, of the state that each is of."""
        return np.where(on, self.on.draw(u), self.off.draw(u))


@dataclass
class Standing:
    """Where devices stand: arrays (n,).

    Attributes
    ----------
    number
        Index of the running length, 1 for the first.
    on, end
        State now and its end, which is infinite where it lasts for ever.
    """

    number: Ints
    on: Mask
    end: Floats

    def of(self, places: NDArray[np.intp] | Clients) -> "Standing":
        """Return a copy of the standing of some of the devices."""
        return Standing(self.number[places], self.on[places], self.end[places])

    def put(self, places: NDArray[np.intp] | Clients, now: "Standing") -> None:
        """Remember the standing of some of the devices."""
        self.number[places], self.on[places], self.end[places] = now.number, now.on, now.end


class RenewalBatch(Batch):
    """Devices with one pair of laws.

    Parameters
    ----------
    process
        The laws.
    members
        (n,) indices of the devices, in ascending order.
    draws
        The stream for availability.
    """

    follows = True

    def __init__(self, process: Process, members: Clients, draws: Stream) -> None:
        self._process, self._draws, self._members = process, draws, members
        self.foreseeable_s = _SPELLS * (process.on.mean + process.off.mean)
        self._first = int(members[0])
        self._together = int(members[-1]) - self._first == len(members) - 1
        on, left = process.starting(members, draws)
        end = np.where(left < FOREVER, left, np.inf)
        self._standing = Standing(np.ones(len(members), dtype=np.int64), on, end)

    def at(self, clients: Clients, instant: float) -> Mask:
        """Follow each device up to the instant."""
        places = self._places(clients)
        behind = (self._standing.end[places] <= instant).nonzero()[0]
        if len(behind):
            late = places[behind]
            self._standing.put(late, self._advanced(clients[behind], self._standing.of(late), instant))
        return self._standing.on[places]

    def ends(self, clients: Clients, instant: float, until: Floats) -> Floats:
        """Look whether the running interval ends in time."""
        now = self._advanced(clients, self._standing.of(self._places(clients)), instant)
        found = np.where(now.end <= until, now.end, np.inf)
        ending = np.flatnonzero(now.end <= until)
        now = now.of(ending)
        while len(ending):  # where the length that follows is too short for the clock, the device stays on
            now = self._advanced(clients[ending], now, found[ending])
            stays = np.flatnonzero(now.on)
            ending, now = ending[stays], now.of(stays)
            found[ending] = np.where(now.end <= until[ending], now.end, np.inf)
            again = np.flatnonzero(now.end <= until[ending])
            ending, now = ending[again], now.of(again)
        return found

    def spells(self, clients: Clients, since: float, until: float) -> Spells:
        """Follow a copy of the devices through the window."""
        parts = list[Spells]()
        last, touches = np.zeros(len(clients), dtype=np.int64), False
        for who, begun, now in self._states(clients, since, until):
            # A length too short for the clock is passed over, and the device stays on.
            touches |= bool(parts) and bool((now.number - last[who]).max() > 1)
            parts.append(Spells(who[now.on], begun[now.on], np.minimum(now.end, until)[now.on]))
            last[who] = now.number
        found = together(parts)
        if not touches:
            return found
        order = np.lexsort((found.starts, found.who))
        return joined(found.who[order], found.starts[order], found.ends[order])

    def leaves(self, clients: Clients, since: float, until: float) -> Floats:
        """Find those that are off for ever."""
        gone = np.full(len(clients), np.inf)
        for who, begun, now in self._states(clients, since, until):
            last = np.isinf(now.end) & ~now.on
            gone[who[last]] = begun[last]
        return gone

    def _states(
        self, clients: Clients, since: float, until: float
    ) -> Iterator[tuple[NDArray[np.intp], Floats, Standing]]:
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

    def _advanced(self, clients: Clients, now: Standing, instant: float | Floats) -> Standing:
        """Go on until every device's state ends after the instant."""
        behind = (now.end <= instant).nonzero()[0]
        while len(behind):
            before, limit = now.of(behind), instant if isinstance(instant, float) else instant[behind]
            steps = self._steps(limit - before.end)
            after = (
                self._after(clients[behind], before)
                if steps == 1
                else self._beyond(clients[behind], before, limit, steps)
            )
            now.put(behind, after)
            behind = behind[after.end <= limit]
        return now

    def _after(self, clients: Clients, before: Standing) -> Standing:
        """Return where devices stand one length later."""
        number, on = before.number + 1, ~before.on
        end = before.end + self._process.lengths(on, self._draws.uniforms(clients, number))
        return Standing(number, on, np.where(end < FOREVER, end, np.inf))

    def _beyond(self, clients: Clients, before: Standing, limit: float | Floats, steps: int) -> Standing:
        """Return where devices stand when the state ends after a limit (n,), or as many lengths later as steps."""
        further, every = np.arange(1, steps + 1), np.arange(len(clients))
        numbers, on = before.number[:, None] + further, before.on[:, None] ^ (further % 2 == 1)
        ends = np.empty((len(clients), steps + 1))
        ends[:, 0], ends[:, 1:] = before.end, self._process.lengths(on, self._draws.uniforms(clients[:, None], numbers))
        np.add.accumulate(ends, axis=1, out=ends)
        over = ends[:, 1:] > (limit if isinstance(limit, float) else limit[:, None])
        last = np.where(over[:, -1], over.argmax(axis=1), steps - 1)  # ends never fall
        end = ends[every, last + 1]
        return Standing(numbers[every, last], on[every, last], np.where(end < FOREVER, end, np.inf))

    def _steps(self, missing_s: Floats) -> int:
        """Return how many lengths will probably do for most who are behind by so much, as far as memory allows.

        It makes no difference to where they come out.
        """
        mean = (self._process.on.mean + self._process.off.mean) / 2
        likely = float(missing_s.mean()) / mean if mean else 0.0
        return int(max(1.0, min(1.3 * likely + 2.0, _AT_ONCE / len(missing_s), _MOST))) if likely > 1.0 else 1
