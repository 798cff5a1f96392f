"""When shocks of one kind befall one place: by chance, as a Poisson process, or at known times."""

import math
from typing import NamedTuple, Protocol

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import FOREVER, each_to_ms
from fedsim.common.keyed import Stream
from fedsim.population.distributions import Distribution

_CHUNK = 64
_DRAWS = 4  # of each shock: the time to the next, two for a length
_LONGEST_S = 4.5e12  # 140,000 years: sums of such lengths stay below 2**63 milliseconds


class Shocks(NamedTuple):
    """Some shocks, in the order in which they begin: arrays (n,).

    Attributes
    ----------
    number
        Index of each, the key of the draws that say whom it hits.
    starts, ends
        Milliseconds of simulated time, half-open; `FOREVER` where it never ends.
    """

    number: Ints
    starts: Ints
    ends: Ints


def drawn(seconds: Floats) -> Ints:
    """Return lengths that were drawn in whole milliseconds."""
    return each_to_ms(np.minimum(seconds, _LONGEST_S))


class Calendar(Protocol):
    """When the shocks of one kind befall one place."""

    last: int = FOREVER
    """The instant after which none begins."""

    def within(self, since: int, until: int) -> Shocks:
        """Return the shocks that run at some instant of [since, until)."""
        ...


class Known(Calendar):
    """Shocks at known times: (n,) milliseconds of simulated time."""

    def __init__(self, starts: Ints, ends: Ints) -> None:
        order = np.argsort(starts, kind="stable")
        self.last = int(starts.max())
        self._all = Shocks(order.astype(np.int64), starts[order], ends[order])

    def within(self, since: int, until: int) -> Shocks:
        """Look through all of them."""
        some = (self._all.starts < until) & (self._all.ends > since)
        return Shocks(self._all.number[some], self._all.starts[some], self._all.ends[some])


class ByChance(Calendar):
    """Shocks that begin as a Poisson process, stationary from the first instant.

    At time 0 a Poisson number of them runs already, each with what is left of its length (`Distribution.remaining`).
    `key` is that of this kind and place in the stream for shocks, `every_s` the mean time between two beginnings (a
    millisecond at least), `length` the law of their lengths, and `running` how many run at an instant on average.
    """

    def __init__(self, draws: Stream, key: int, every_s: float, length: Distribution, running: float) -> None:
        self._draws, self._key, self._every_s, self._length = draws, key, every_s, length
        count = poisson_quantile(running, float(draws.uniforms(key, 0)[0]))
        number = np.arange(count)
        u, v = (draws.uniforms(key, _DRAWS * (number + 1) + each) for each in (1, 2))
        # Those that run at 0 begin there, as far as anyone can see.
        self._starts, self._ends = np.zeros(count, dtype=np.int64), drawn(length.remaining(u, v))
        self._latest = np.maximum.accumulate(self._ends)
        self._reached = 0

    def within(self, since: int, until: int) -> Shocks:
        """Go on as far as need be, and look among those that begin before `until`, from the first that still runs."""
        while self._reached < until:
            number = np.arange(len(self._starts), len(self._starts) + _CHUNK)
            gaps = drawn(self._every_s * self._draws.exponentials(self._key, _DRAWS * (number + 1)))
            starts = self._reached + np.cumsum(gaps)
            ends = starts + drawn(self._length.draw(self._draws.uniforms(self._key, _DRAWS * (number + 1) + 3)))
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
