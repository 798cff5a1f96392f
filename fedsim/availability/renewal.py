"""Devices that are on and off by turns, with independent lengths: an alternating renewal process for each device."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.availability.batch import Batch
from fedsim.availability.civil import Place
from fedsim.availability.model import ExactModel, Pieces
from fedsim.availability.spells import Spells
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import FOREVER, SECOND, each_to_ms
from fedsim.common.keyed import Stream
from fedsim.common.registry import OptionError
from fedsim.population.distributions import Distribution, distribution
from fedsim.scenario.sources import Length

_BLOCK = 64  # drawn at once: drawing one by one costs ten times as much
_LEAST_CYCLE = 1.001  # milliseconds; in less, every length may be rounded to 0, and means may be slightly inexact
_SPELLS = 16  # of each device on average, worth precomputing
_AT_ONCE, _MOST = 1 << 16, 64  # lengths drawn at once, of all devices and of each
_EXTREMES = np.array([2.0**-54, 1.0 - 2.0**-53])  # of uniform draws
_ON = "Lengths of the times available; a bare duration is the mean of an exponential law."
_LONGEST = 1 << 52
"""140,000 years: a state that ends then or later lasts for ever, so that sums of lengths stay below 2**63."""


@dataclass(frozen=True)
class Process:
    """The laws of the lengths on and off of a process that is stationary from the first instant.

    Draw 0 decides whether the device starts on, with probability mean_on / (mean_on + mean_off); draw k >= 1 decides
    the k-th length. The first length is what is left of a running interval (`Distribution.remaining`), so the process
    at time 0 has the same law as at any other. Lengths are whole milliseconds, `LONGEST` at most; one of 0 is skipped.
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
        return bool(longest * SECOND > _LONGEST / 2)

    def starting(self, clients: Ints, draws: Stream) -> tuple[Bools, Ints]:
        """Return whether each device starts on, and how long it stays so."""
        mean_on, mean_off = self.on.mean, self.off.mean
        share = mean_on / (mean_on + mean_off)
        first_draw = draws.uniforms(clients, 0)
        starts_on = first_draw < share
        # Given the side on which it fell, the draw is uniform there, which saves a second one.
        rest = np.where(starts_on, first_draw / share, (first_draw - share) / (1 - share) if share < 1 else 0.0)
        u = draws.uniforms(clients, 1)
        return starts_on, _whole(np.where(starts_on, self.on.remaining(u, rest), self.off.remaining(u, rest)))

    def lengths(self, on: Bools, u: Floats) -> Ints:
        """Return complete lengths from uniform draws, of the state that each is of."""
        return _whole(np.where(on, self.on.draw(u), self.off.draw(u)))


def _whole(seconds: Floats) -> Ints:
    return each_to_ms(np.minimum(seconds, _LONGEST / SECOND))


def _or_forever(ends: Ints) -> Ints:
    return np.where(ends < _LONGEST, ends, FOREVER)


class RenewalAvailability(ExactModel):
    """On and off by turns, with independent lengths, stationary from the first instant.

    Raises an `OptionError` if a mean is not above 0 and finite, or both together are no more than a millisecond.
    """

    def __init__(
        self,
        on: Annotated[Length, Field(description=_ON)],
        off: Annotated[Length, Field(description="Lengths of the times not available.")],
    ) -> None:
        self.process = Process(distribution(on), distribution(off))
        for name, lengths in (("on", self.process.on), ("off", self.process.off)):
            if not 0 < lengths.mean < math.inf:
                raise OptionError(name, f"must be a law with a mean above 0 and finite, not {lengths.mean:g}")
        if self.process.cycle < _LEAST_CYCLE:
            raise OptionError(
                "on",
                "on and off together must last longer than a millisecond on average, the step of simulated time, not "
                f"{self.process.cycle:g} ms",
            )

    def pieces(self, client: int, place: Place, draws: Stream) -> Pieces:  # noqa: ARG002
        (starts_on,), (left,) = self.process.starting(np.array([client]), draws)
        on, since, first = bool(starts_on), 0, 1  # since when the device has been in this state
        while True:
            u = draws.uniforms(client, np.arange(first, first + _BLOCK))
            lengths = self.process.lengths((np.arange(_BLOCK) % 2 == 0) == starts_on, u)
            if first == 1:
                lengths[0] = left
            for length in lengths.tolist():
                end = since + length if since + length < _LONGEST else FOREVER
                if on and length:
                    yield since, end
                if end == FOREVER:
                    return
                since, on = end, not on
            first += _BLOCK

    def batches(self, homes: Sequence[tuple[Place, Ints]], draws: Stream) -> "list[RenewalBatch]":
        members = np.sort(np.concatenate([members for _, members in homes]))
        return [RenewalBatch(self.process, members, draws)] * len(homes)


@dataclass
class RenewalState:
    """The state of devices, arrays (n,): the index of the running length (1 for the first), on or off, and until when.

    `end` is `FOREVER` where the state lasts for ever.
    """

    number: Ints
    on: Bools
    end: Ints

    def of(self, rows: NDArray[np.intp] | Ints) -> "RenewalState":
        """Return a copy of the state of some of the devices."""
        return RenewalState(self.number[rows], self.on[rows], self.end[rows])

    def put(self, rows: NDArray[np.intp] | Ints, now: "RenewalState") -> None:
        """Set the state of some of the devices."""
        self.number[rows], self.on[rows], self.end[rows] = now.number, now.on, now.end


class RenewalBatch(Batch):
    """Devices with one pair of laws; `members` (n,) are their indices in ascending order."""

    follows = True

    def __init__(self, process: Process, members: Ints, draws: Stream) -> None:
        self._process, self._draws, self._members = process, draws, members
        self.foreseeable = int(min(_SPELLS * process.cycle, FOREVER))
        self.may_leave = process.may_leave
        self._first = int(members[0])
        self._consecutive = int(members[-1]) - self._first == len(members) - 1
        on, left = process.starting(members, draws)
        self._state = RenewalState(np.ones(len(members), dtype=np.int64), on, _or_forever(left))

    def at(self, clients: Ints, instant: int) -> Bools:
        rows = self._rows(clients)
        behind = (self._state.end[rows] <= instant).nonzero()[0]
        if len(behind):
            late = rows[behind]
            self._state.put(late, self._advanced(clients[behind], self._state.of(late), instant))
        return self._state.on[rows]

    def spells(self, clients: Ints, since: int, until: int) -> Spells:
        parts = list[Spells]()
        last, touches = np.zeros(len(clients), dtype=np.int64), False
        for who, begun, now in self._states(clients, since, until):
            # A length of 0 is passed over, and the device stays on.
            touches |= bool(parts) and bool((now.number - last[who]).max() > 1)
            parts.append(Spells(who, begun, np.minimum(now.end, until), len(clients)).where(now.on))
            last[who] = now.number
        spells = Spells.together(parts, len(clients))
        return spells.joined() if touches else spells

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        gone = np.full(len(clients), FOREVER)
        for who, begun, now in self._states(clients, since, until):
            last = (now.end == FOREVER) & ~now.on
            gone[who[last]] = begun[last]
        return gone

    def _states(self, clients: Ints, since: int, until: int) -> Iterator[tuple[NDArray[np.intp], Ints, RenewalState]]:
        """Yield the states within a window one after the other: positions, since when, and the state."""
        now = self._advanced(clients, self._state.of(self._rows(clients)), since)
        who, begun = np.arange(len(clients)), np.full(len(clients), since)
        while len(who):
            yield who, begun, now
            further = np.flatnonzero(now.end < until)
            who, begun, now = who[further], now.end[further], now.of(further)
            now = self._advanced(clients[who], now, begun)

    def _rows(self, clients: Ints) -> Ints | NDArray[np.intp]:
        return clients - self._first if self._consecutive else np.searchsorted(self._members, clients)

    def _advanced(self, clients: Ints, now: RenewalState, instant: int | Ints) -> RenewalState:
        """Go on until every device's state ends after the instant."""
        limits = np.broadcast_to(np.minimum(instant, _LONGEST - 1), now.end.shape)
        behind = (now.end <= limits).nonzero()[0]
        while len(behind):
            before, limit = now.of(behind), limits[behind]
            after = self._beyond(clients[behind], before, limit, self._steps(limit - before.end))
            now.put(behind, after)
            behind = behind[after.end <= limit]
        return now

    def _beyond(self, clients: Ints, before: RenewalState, limit: Ints, steps: int) -> RenewalState:
        """Return the state that ends after a limit (n,), or the one `steps` lengths later."""
        further = np.arange(1, steps + 1)
        numbers, on = before.number[:, None] + further, before.on[:, None] ^ (further % 2 == 1)
        lengths = self._process.lengths(on, self._draws.uniforms(clients[:, None], numbers))
        ends = before.end[:, None] + np.cumsum(lengths, axis=1)
        # Ends never decrease, so the number of those within the limit is the index of the first beyond it.
        last = np.minimum((ends <= limit[:, None]).sum(axis=1), steps - 1)
        every = np.arange(len(clients))
        return RenewalState(numbers[every, last], on[every, last], _or_forever(ends[every, last]))

    def _steps(self, missing: Ints) -> int:
        """Return how many lengths are probably enough for most devices; results do not depend on it."""
        likely = 2 * float(missing.mean()) / self._process.cycle
        return int(max(1.0, min(1.3 * likely + 2.0, _AT_ONCE / len(missing), _MOST))) if likely > 1.0 else 1
