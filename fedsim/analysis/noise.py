r"""What chance does to how often clients take part, estimated from one run.

The variance of a count over T rounds is, but for the ends of the run, T times the spectral density of participation at
frequency zero. The run is cut into 20 spans, and the counts of the spans are weighted by sines and cosines of 1 to 6
cycles over the run. Each such contrast has mean zero and about the variance of the count itself, what the ends of the
run add included: weights of cosines at the ends have a mean square of 1. Spans of rounds overlap as triangles, so that
participation every so many rounds does not leak into low frequencies. Spans of days are whole days, so that times of
day cancel. What is left of the rise towards the frequency of a client's turns, (2 pi k / n)^2 (1 - d^2) / 12 for k
cycles, n turns a client and d the variance of counts over their mean, is that of a renewal process.

The L1 distance from uniform, sum_i |x_i| with x_i = f_i - 1/N, is too large by noise: E|x + e| > |x|. Let A(s) be sum_i
E|x_i + sqrt(s v_i) Z|, Z standard normal and v_i the variance of f_i: noise added to the noise that is there. A(s)^2 is
linear in 1 + s if there is noise alone, or if deviations are normal, and nearly so otherwise; its value at s = -1 is an
estimate of the squared distance without noise (simulation and extrapolation; Cook and Stefanski 1994). The interval is
that of a normal mean that cannot be below zero (Feldman and Cousins 1998), so that it covers at uniformity too.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY_S
from fedsim.common.intervals import student_quantile

_SPANS = 20
DEGREES = 12  # most contrasts
_FEWEST_ROUNDS, _FEWEST_DAYS = 200, 5
_TURNS = 6  # that a client has in a cycle of the fastest contrast, on average
_PARTS = 64  # of a participation that can be in one span, the others being in the next
_BLOCK = 1 << 12
_ROUNDING = 1e-9
_LEAST = 1e-4  # variance of a count
_SMOOTH = 0.25  # variance that is added to counts: with less, whole numbers are not like normal ones
_LEVELS = 50  # parts of the clients, by count, whose variance is pooled
_DOUBT = 0.01  # of the correction: how well laws are known to be normal
_NORMAL, _HALF = 1.959964, math.sqrt(2.0 / math.pi)
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(32)
_SHARES = _SHARES / _SHARES.sum()


@dataclass(frozen=True)
class SamplingNoise:
    """What chance does to the frequencies f_i of a run, and their L1 distance from uniform without it."""

    l1: float  # expected L1 distance of the frequencies from their long-run values
    se: float  # standard error of the measured L1 distance from uniform
    corrected: float  # that distance, less what noise adds to it
    low: float  # ends of the 95 % interval of the long-run distance
    high: float


class SpanCounts:
    """Counts how often each client took part in each span of a run.

    `chosen_in` are the numbers of the rounds that selected anyone, in ascending order; `clients` is N, `most` the
    number of participations that there are at most, and `days` the whole days of a run whose devices follow the clock,
    else None. `together` is how many clients are drawn at once.
    """

    def __init__(self, chosen_in: Ints, clients: int, most: int, days: int | None = None, together: int = 1) -> None:
        self._chosen_in, self._clients, self._together, self._most = chosen_in, clients, together, most
        self._by_day = days is not None
        self._known = days >= _FEWEST_DAYS if days is not None else len(chosen_in) >= _FEWEST_ROUNDS
        self._days = -(-days // _SPANS) if days else 0  # of a span
        self._spans = 0 if not self._known else days // self._days if days else _SPANS
        self._told = self._known or len(chosen_in) >= _FEWEST_ROUNDS
        self._parts = _PARTS if days is None else 1
        longest = -(-len(chosen_in) // _SPANS) + 1 if days is None else len(chosen_in)
        self._counted = np.zeros((self._spans, clients), np.min_scalar_type(longest * self._parts))

    def add(self, number: Ints, client: Ints, selected_s: Floats, *, once: bool = True) -> None:
        """Take the rounds, the clients and the times of the next participations, in the order of rounds.

        `once` says that no client takes part twice in a round, as with a buffered server it may.
        """
        if not self._known or not len(client):
            return
        if not once:
            self._counted = self._counted.astype(np.min_scalar_type(self._most * self._parts), copy=False)
        flat, kind = self._counted.reshape(-1), self._counted.dtype.type
        if self._by_day:
            span = np.nan_to_num(selected_s // (self._days * DAY_S)).astype(np.int64)
            kept = span < self._spans
            np.add.at(flat, (span * self._clients + client)[kept], kind(1))
            return
        begins = np.flatnonzero(np.diff(number, prepend=-1))  # of rounds
        rank = np.searchsorted(self._chosen_in, number[begins])
        span, part = np.divmod((2 * rank + 1) * (_SPANS * _PARTS) // (2 * len(self._chosen_in)), _PARTS)
        many = np.diff(begins, append=len(number))
        for first, share in ((span, _PARTS - part), (np.where(span + 1 < _SPANS, span + 1, 0), part)):
            np.add.at(flat, np.repeat(first * self._clients, many) + client, np.repeat(share.astype(kind), many))

    def noise(self, counts: Ints) -> SamplingNoise | None:
        """Return what chance does to frequencies; None if the run has too few rounds or days to tell.

        `counts`, (N,), say how often each client took part. Where days are too few, clients count as independent.
        """
        taken, clients = int(counts.sum()), len(counts)
        if not self._told or not taken or clients < 2:
            return None
        level, place, size = np.unique(counts, return_inverse=True, return_counts=True)
        frequency, turns, weights = level / taken, taken / clients, self._weights(taken / clients) / taken
        summed = weights @ self._counted.sum(axis=1, dtype=np.float64)
        squares = np.zeros((len(weights), len(level)))
        for block, counted in self._blocks():
            contrast = weights @ counted
            contrast -= summed[:, None] * frequency[place[block]]
            np.square(contrast, out=contrast)
            rows = [np.bincount(place[block], row, len(level)) for row in contrast]
            squares += np.reshape(rows, squares.shape)
        if not self._by_day:
            squares /= _rise(squares.sum(axis=1) * taken, turns)[:, None]
        summed_up = squares.mean(axis=0) if len(weights) else frequency / taken * size
        levels = _Levels(frequency, size, summed_up, taken)

        def projected(slope: Floats) -> float:
            """Return the variance of sum_i slope_i f_i."""
            if not len(weights):
                return float(levels.size @ (np.square(slope) * levels.variance))
            moved = np.zeros(self._spans)
            for block, counted in self._blocks():
                moved += counted @ slope[place[block]]
            moved = weights @ moved - summed * float(size @ (frequency * slope))
            return float(np.square(moved).mean())

        return levels.noise(projected, len(weights), self._together, drawn=self._by_day)

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield some clients at a time, which stay in a cache, and their counts by span."""
        for first in range(0, self._clients, _BLOCK):
            block = slice(first, first + _BLOCK)
            yield block, self._counted[:, block].astype(np.float64)

    def _weights(self, turns: float) -> Floats:
        """Return the contrasts as weights of the spans, (contrasts, spans): of a count they have its variance."""
        if not self._known:
            return np.zeros((0, self._spans))
        cycles = np.arange(1, min((self._spans - 1) // 2, DEGREES // 2) + 1)
        if not self._by_day:
            cycles = cycles[: max(2, int(turns / _TURNS))]
        angle = 2.0 * np.pi * cycles[:, None] * np.arange(self._spans) / self._spans
        # A triangle takes part of the power of a cycle; spans of whole days may leave some out at the end.
        power = 1.0 if self._by_day else np.tile((2.0 + np.cos(angle[:, 1])) / 3.0, 2)[:, None]
        power *= float(self._counted.sum(dtype=np.float64)) / self._parts / (turns * self._clients)
        return np.asarray(np.concatenate([np.cos(angle), np.sin(angle)]) * np.sqrt(2.0 / power) / self._parts)


def _rise(powers: Floats, turns: float) -> Floats:
    """Return by how much the power of each contrast is above that at frequency zero; `powers` are over the mean."""
    cycles = np.tile(np.arange(1, len(powers) // 2 + 1), 2)
    rise = np.ones(len(powers))
    for _ in range(2):
        dispersion = min(1.0, float((powers / rise).mean()))
        rise = 1.0 + np.square(2.0 * np.pi * cycles / turns) * (1.0 - dispersion**2) / 12.0
    return rise


class _Levels:
    """The clients by count: those of one level have the same frequency, and are taken to have the same variance."""

    def __init__(self, frequency: Floats, size: Ints, variance: Floats, taken: int) -> None:
        clients = int(size.sum())
        _, part = np.unique((np.cumsum(size) - size) * _LEVELS // clients, return_inverse=True)
        pooled, mass = np.bincount(part, variance), np.bincount(part, frequency * size)
        dispersion = np.where(mass > 0.0, pooled / np.where(mass > 0.0, mass, 1.0), variance.sum())[part]
        self.size, self.away, self.clients, self.taken = size, frequency - 1.0 / clients, clients, taken
        self.pooled = np.bincount(part, size)[part]  # clients of which the variance is known together
        # Frequencies lie farther apart than their long-run values: variances are those of values so much nearer.
        noise = float(variance.sum()) * (1.0 + math.sqrt(2.0 / clients))  # what is no more may be chance
        self.kept = max(0.0, 1.0 - noise / max(float(size @ np.square(self.away)), 1e-300))
        self.variance = np.maximum(dispersion * (1.0 / clients + self.kept * self.away), _LEAST / taken**2)

    def noise(self, projected: Callable[[Floats], float], degrees: int, together: int, *, drawn: bool) -> SamplingNoise:
        size, away, deviation = self.size, self.away, np.sqrt(self.variance)
        measured = float(size @ np.abs(away))
        if float(self.variance.max()) <= _LEAST / self.taken**2:  # as if all took part in turn
            return SamplingNoise(0.0, 0.0, measured, measured, measured)
        wider = 1.0 + 1.0 / (4.0 * degrees * self.pooled) if degrees else 1.0  # a root of an estimate is too small
        smooth = _SMOOTH / (float(size @ self.variance) / self.clients * self.taken**2)
        scales = np.sqrt(np.array([smooth, smooth + 1.0]))
        extrapolation = np.array([2.0 + smooth, -1.0 - smooth])
        sums = np.array([float(size @ _folded(away, scale * deviation)) for scale in scales])

        def squared(x: Floats) -> Floats:
            folded = np.stack([_folded(x, scale * deviation) for scale in scales])
            return np.asarray(2.0 * (extrapolation * sums) @ folded)

        found = float(extrapolation @ np.square(sums))
        quantile = float(student_quantile(degrees + 1)) / _NORMAL if degrees else 1.0

        def error(function: Callable[[Floats], Floats], kept: float, wider: float = 1.0) -> float:
            """Return the standard error of sum_i function(x_i), where the long-run values are `kept` x_i."""
            values = np.array([function(kept * away + node * deviation) for node in _NODES])
            mean, slope = _SHARES @ values, (_SHARES * _NODES) @ values
            rest = _SHARES @ np.square(values) - np.square(mean) - np.square(slope)
            own = float(size @ np.maximum(rest, 0.0)) * together
            along = slope / deviation
            common = projected(along) * wider**2
            if drawn and kept:  # another seed has other people
                common = max(0.0, common - float(size @ np.square(slope)))
                value = function(away)
                apart = value - float(size @ value) / self.clients
                apart -= float(size @ (along * (away + 1.0 / self.clients))) * away
                own = float(size @ np.square(apart))
            return math.sqrt(common + own)

        doubt = _DOUBT * (float(np.square(sums[0])) - found)
        near, here = (math.hypot(error(squared, kept, quantile), doubt) for kept in (0.0, math.sqrt(self.kept)))
        below = min(1.0, max(0.0, _bounds(found / here)[0] * here / found)) if found > 0.0 else 0.0
        lower = math.sqrt(near**2 + below * (here**2 - near**2))
        return SamplingNoise(
            _HALF * float(size @ (deviation * wider)) * _by_whole_numbers(self.taken, self.clients),
            error(np.abs, math.sqrt(self.kept)),
            min(measured, math.sqrt(max(found, 0.0))),
            math.sqrt(_bounds(found / lower)[0] * lower),
            math.sqrt(_bounds(found / here)[1] * here),
        )


def by_chance(taken: int, clients: int) -> float:
    """Return the L1 distance from uniform to be expected when each participation goes to anyone alike.

    A client's count is binomial, and its mean absolute deviation is 2 v C(n, v) p^v (1 - p)^(n - v + 1), where v is the
    least whole number above n p (De Moivre, 1730).
    """
    if not taken or clients < 2:
        return 0.0
    share = 1 / clients
    above = math.floor(taken * share + _ROUNDING) + 1
    ways = math.lgamma(taken + 1) - math.lgamma(above + 1) - math.lgamma(taken - above + 1)
    logarithm = ways + above * math.log(share) + (taken - above + 1) * math.log1p(-share)
    return 2 * above * math.exp(logarithm) * clients / taken


def chance_spread(taken: int) -> float:
    """Return the standard deviation of that distance: of a sum of N nearly independent folded normal deviations."""
    return math.sqrt((1.0 - 2.0 / math.pi) / taken) if taken else 0.0


def _folded(x: Floats, deviation: Floats) -> Floats:
    """Return E|x + e| of a normal e."""
    from scipy.special import ndtr  # takes long to import

    ratio = np.abs(x) / deviation
    return np.asarray(deviation * _HALF * np.exp(-0.5 * np.square(ratio)) + np.abs(x) * (2.0 * ndtr(ratio) - 1.0))


def _by_whole_numbers(taken: int, clients: int) -> float:
    """Return E|n - m| of a binomial count n of mean m, over that of the normal law of the same variance."""
    return by_chance(taken, clients) / (_HALF * math.sqrt((clients - 1) / taken))


def _bounds(observed: float) -> tuple[float, float]:
    """Return the 95 % interval of Feldman and Cousins of a mean that is not below 0, in standard errors."""
    if observed > 4.0:
        return observed - _NORMAL, observed + _NORMAL
    mean, least, most = _acceptance()
    return float(np.interp(observed, most, mean, left=0.0)), float(np.interp(observed, least, mean))


@cache
def _acceptance() -> tuple[Floats, Floats, Floats]:
    """Return means, and the least and the most that is observed with 95 %, in the order of the ratio of likelihoods."""
    from scipy.special import ndtr

    mean = np.linspace(1e-6, 8.0, 4_001)
    narrow, wide = np.zeros_like(mean), np.full_like(mean, 6.0)
    for _ in range(50):
        half = (narrow + wide) / 2.0
        least = np.where(half <= mean, mean - half, (mean - np.square(half) / mean) / 2.0)
        inside = ndtr(half) - ndtr(least - mean) < 0.95
        narrow, wide = np.where(inside, half, narrow), np.where(inside, wide, half)
    return mean, least, mean + half
