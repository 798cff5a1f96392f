r"""What chance does to how often clients take part, estimated from one run.

The variance of a count over T rounds is T times the spectral density of participation at frequency zero. Counts of
spans of the run are weighted by sines of up to 13 half-cycles, mixed to sum 0: contrasts with that variance, which the
ends of the run do not touch. Spans of rounds overlap as triangles, so that participation every so many rounds does not
leak in; spans of days are whole, so that times of day cancel.

A count is m + s Z, Z standard normal, rounded at random to one of the two whole numbers next to it with mean m. What
rounding adds is part of that variance for Poisson counts, and comes on top for regular ones. Expectations of such
numbers are 1 % off for m from 0.7 on. Around a mean below 1, only the chance of a count of 0 matters, which is that of
the binomial, Poisson or negative binomial of the same variance.

The L1 distance from uniform is too large by noise: E|x + e| > |x|. With long-run frequencies k times as far from it as
measured ones, a distance is expected that grows with k; the k for which it is the measured one gives the distance
without noise. Its interval is that of a normal mean that cannot be below 0 (Feldman and Cousins 1998), and covers at
uniformity too. A run in which all are ready at first takes the heaviest first, and counts cannot tell that from a
long-run difference: 1/6 of a participation is allowed for it.

Where rounding is most of a count's variance, the interval is that of smooth counts, weighted by 1 - cos(2 pi t/T): the
ends of the run do not touch them either. Their variance is 1.5 times that at frequency zero.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY_S
from fedsim.common.intervals import NORMAL, bisected, normal_below, student_quantile

_SPANS, _FEW_SPANS, _MANY = 80, 20, 20_000  # the last: clients, of which there are few spans
DEGREES = 12  # most contrasts
_FEWEST_ROUNDS, _FEWEST_DAYS = 200, 3
_TURNS = 10  # that a client has in a cycle of the fastest contrast, on average
_PARTS = 64  # of a participation that can be in one span, the others being in the next
_BLOCK = 1 << 12
_ROUNDING = 1e-9
_TAPER = 1.5  # variance of a count that is smooth at the ends of the run over that at frequency zero
_LEAST = 1e-9  # variance of a count
_LEVELS = 50  # parts of the clients, by count, whose variance is pooled
_BEGIN = 1 / 6  # participations
_DOUBT = 0.01  # of the correction: how well distributions are known
_NODES = np.linspace(-5.0, 5.0, 81)
_PLACES = (-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534)  # equally likely
_SHARES = np.exp(-0.5 * np.square(_NODES))
_SHARES = _SHARES / _SHARES.sum()


@dataclass(frozen=True)
class SamplingNoise:
    """What chance does to the frequencies f_i of a run, and their L1 distance from uniform without it."""

    l1: float  # expected L1 distance of the frequencies from their long-run values
    se: float  # standard error of the measured L1 distance from uniform
    corrected: float  # that distance, less what noise adds to it
    low: float  # ends of the 95 % interval of the long-run distance
    high: float
    fair: float  # expected L1 distance from uniform of the frequencies if the long-run values were equal


class SpanCounts:
    """Counts how often each client took part in each span of a run.

    `chosen_in` are the numbers of the rounds that selected anyone, in ascending order; `clients` is N, `most` the
    number of participations that there are at most, and `days` the whole days of a run whose devices follow the clock,
    else None. `together` is how many clients are drawn at once.
    """

    def __init__(self, chosen_in: Ints, clients: int, most: int, days: int | None = None, together: int = 1) -> None:
        self._chosen_in, self._clients, self._together, self._most = chosen_in, clients, together, most
        self._by_day = days is not None
        self._enough = days >= _FEWEST_DAYS if days is not None else len(chosen_in) >= _FEWEST_ROUNDS
        most_spans = _SPANS if clients <= _MANY else _FEW_SPANS
        self._days = -(-days // most_spans) if days else 0  # of a span
        self._spans = 0 if not self._enough else days // self._days if days else most_spans
        self._judged = self._enough or len(chosen_in) >= _FEWEST_ROUNDS
        self._parts = _PARTS if days is None else 1
        longest = -(-len(chosen_in) // most_spans) + 1 if days is None else len(chosen_in)
        self._counted = np.zeros((self._spans, clients), np.min_scalar_type(longest * self._parts))

    def add(self, number: Ints, client: Ints, selected_s: Floats, *, once: bool = True) -> None:
        """Take the rounds, the clients and the times of the next participations, in the order of rounds.

        `once` says that no client takes part twice in a round, as with a buffered server it may.
        """
        if not self._enough or not len(client):
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
        span, part = np.divmod((2 * rank + 1) * (self._spans * _PARTS) // (2 * len(self._chosen_in)), _PARTS)
        many = np.diff(begins, append=len(number))
        for first, share in ((span, _PARTS - part), (np.where(span + 1 < self._spans, span + 1, 0), part)):
            np.add.at(flat, np.repeat(first * self._clients, many) + client, np.repeat(share.astype(kind), many))

    def noise(self, counts: Ints) -> SamplingNoise | None:
        """Return what chance does to frequencies; None if the run has too few rounds or days to tell.

        `counts`, (N,), say how often each client took part. Where days are too few, clients count as independent.
        """
        taken, clients = int(counts.sum()), len(counts)
        if not self._judged or not taken or clients < 2:
            return None
        weights = self._weights(taken / clients)
        noise, levels, _ = self._noise(counts, weights)
        if self._by_day or not len(weights) or not levels.coarse or levels.even < 1.0:
            return noise
        rate = 1.0 - np.cos(2.0 * np.pi * np.arange(self._spans) / self._spans)
        smooth = np.concatenate([rate @ counted for _, counted in self._blocks()])
        smooth = np.rint(smooth * (taken / smooth.sum() * _PARTS)) / _PARTS
        tapered, levels, place = self._noise(smooth, weights, _TAPER)
        l1 = np.mean([np.abs(counts - mean[place]).sum() for mean in levels.spread(1.0 - 1.0 / _TAPER)])
        return replace(tapered, l1=float(l1) / taken, se=noise.se, fair=noise.fair)

    def _noise(
        self, counts: Ints | Floats, weights: Floats, taper: float = 1.0
    ) -> "tuple[SamplingNoise, _Levels, NDArray[np.integer]]":
        """Return it, from counts or from smooth ones, with the levels of counts and the level of each client."""
        level, place, size = _levels_of(counts)
        taken = float(counts.sum())
        share = level / taken
        summed = weights @ self._counted.sum(axis=1, dtype=np.float64)
        squares = np.zeros((len(weights), len(level)))
        for block, counted in self._blocks():
            contrast = weights @ counted
            contrast -= summed[:, None] * share[place[block]]
            np.square(contrast, out=contrast)
            squares += np.reshape([np.bincount(place[block], row, len(level)) for row in contrast], squares.shape)
        variance = squares.mean(axis=0) if len(weights) else level * size

        def projected(slope: Floats) -> float:
            """Return the variance of sum_i slope_i n_i."""
            moved = np.zeros(self._spans)
            for block, counted in self._blocks():
                moved += counted @ slope[place[block]]
            return float(np.square(weights @ moved - summed * float(size @ (share * slope))).mean())

        levels = _Levels(level, size, variance, len(weights), taper, by_day=self._by_day)
        return levels.noise(projected if len(weights) else None, self._together), levels, place

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield some clients at a time, which stay in a cache, and their counts by span."""
        for first in range(0, self._clients, _BLOCK):
            block = slice(first, first + _BLOCK)
            yield block, self._counted[:, block].astype(np.float64)

    def _weights(self, turns: float) -> Floats:
        """Return the contrasts as weights of the spans, (contrasts, spans): of a count they have its variance."""
        if not self._enough:
            return np.zeros((0, self._spans))
        slow = DEGREES if self._by_day else max(1, int(turns / _TURNS))
        cycles = min((self._spans - 1) // 2, DEGREES // 2, slow)
        halves = np.arange(1, 2 * cycles + 2)
        place = np.pi * (np.arange(self._spans) + 0.5 * self._by_day) / self._spans
        waves = np.linalg.qr((np.sin(halves[:, None] * place) * np.sin(place)).T)[0].T
        weights = np.linalg.svd(waves.sum(axis=1)[None])[2][1:] @ waves  # those whose sum is 0
        after = weights if self._by_day else np.roll(weights, -1, axis=1)  # a triangle is between two spans
        power = (np.square(weights) + weights * after + np.square(after)).mean(axis=1, keepdims=True) / 3.0
        power *= float(self._counted.sum(dtype=np.float64)) * self._parts / (turns * self._clients)
        return np.asarray(weights / np.sqrt(power))


def _levels_of(counts: Ints | Floats) -> tuple[Floats, NDArray[np.integer], Ints]:
    """Return the different counts in order, the place (N,) of each count among them, and how often each is there."""
    if counts.dtype.kind == "f":
        return np.unique(counts, return_inverse=True, return_counts=True)
    often = np.bincount(counts)  # a sort takes ten times the memory
    level = np.flatnonzero(often)
    place = np.zeros(len(often), np.min_scalar_type(len(level)))
    place[level] = np.arange(len(level))
    return level.astype(np.float64), place[counts], often[level]


class _Levels:
    """The clients by count: those of one level are taken to have the same mean, and the same variance."""

    def __init__(
        self, count: Floats, size: Ints, variance: Floats, degrees: int, taper: float, *, by_day: bool
    ) -> None:
        self.taper, self.by_day, self.size = taper, by_day, size
        self.clients, self.taken = int(size.sum()), float(count @ size)
        self.even = self.taken / self.clients
        self.away, self.kept = count - self.even, 0.0
        _, part = np.unique((np.cumsum(size) - size) * _LEVELS // self.clients, return_inverse=True)
        mass, overall = np.bincount(part, count * size), np.full(part[-1] + 1, variance.sum() / self.taken)
        dispersion = np.divide(np.bincount(part, variance), mass, out=overall, where=mass > 0.0)[part]
        self.dispersion = dispersion
        # 1 of Poisson counts, 0 of regular ones, which the ends of a run cut; days are counted whole.
        self.random = np.ones_like(dispersion) if by_day else np.minimum(dispersion, 1.0)
        for _ in range(2):
            smooth = dispersion * (self.even + self.kept * self.away)
            rounding = _Distribution(self.means(self.kept), np.sqrt(smooth), dispersion).variance - smooth
            self.deviation = np.sqrt(np.maximum(smooth - np.square(self.random) * rounding, 0.0))
            self.variance = self.distribution(self.kept).variance
            # Counts lie farther apart than their means: a mean is expected so much nearer to that of all.
            noise = float(size @ self.variance) * (1.0 + math.sqrt(2.0 / self.clients))  # what is no more may be chance
            self.kept = max(0.0, 1.0 - noise / max(float(size @ np.square(self.away)), 1e-300))
        self.degrees, self.coarse = degrees, size @ self.variance > _TAPER * (size @ np.square(self.deviation))
        if degrees:  # a root of an estimate is too small
            self.deviation *= 1.0 + 1.0 / (4.0 * degrees * np.bincount(part, size)[part])

    def means(self, kept: float) -> Floats:
        """Return means that are `kept` times as far apart as the counts that there are."""
        return np.asarray(self.even + kept * self.away)

    def spread(self, unknown: float = 1.0) -> list[Floats]:
        """Return equally likely means."""
        apart = self.kept * float(self.size @ np.square(self.away)) / self.clients  # variance of means
        kept = apart / (apart + np.maximum(self.variance, _LEAST))
        around = np.sqrt(unknown * kept * self.variance)
        return [self.even + kept * self.away + place * around for place in (_PLACES if self.kept else (0.0,))]

    def distribution(self, kept: float) -> "_Distribution":
        """Return how the counts, or smooth counts, are distributed with those means."""
        mean = self.means(kept)
        if self.taper > 1.0:
            return _Distribution(mean, math.sqrt(self.taper) * self.deviation)
        return _Distribution(mean, self.deviation, self._dispersed(mean))

    def _dispersed(self, mean: Floats) -> Floats:
        """Return the variance of whole counts over their mean: rounding adds to that of regular ones."""
        added = (1.0 - np.square(self.random)) * np.clip(1.0 - mean, 0.0, None)
        return np.maximum(self.dispersion + added, _LEAST)

    def noise(self, projected: Callable[[Floats], float] | None, alike: int) -> SamplingNoise:
        size, degrees = self.size, self.degrees
        measured, root = float(size @ np.abs(self.away)), math.sqrt(self.kept)
        quantile = float(student_quantile(degrees + 1)) / NORMAL if degrees else 1.0
        unsure = alike / (2.0 * degrees * self.clients) if degrees else 0.0  # variance of what noise is taken to be

        def expected(kept: float) -> float:
            """Return the sum of |n - T/N| to be expected if the means are `kept` times as far apart as the counts."""
            return float(size @ self.distribution(kept).distance(self.even)[0])

        def errors(kept: float) -> tuple[float, float]:
            """Return the standard error of that sum, and what stands for it in an interval."""
            distribution = self.distribution(kept)
            _, slope, rest = distribution.distance(self.even)
            separate = float(size @ rest) * alike
            common = float(size @ (distribution.variance * np.square(slope)))
            if projected is not None:
                common = self.taper * projected(slope)
            if self.by_day and kept:  # another seed has other people
                common = max(0.0, common - float(size @ (np.square(slope) * self.variance)))
                apart = np.abs(self.away) - measured / self.clients
                apart -= float(size @ (slope * (self.even + self.away))) / self.taken * self.away
                separate = float(size @ np.square(apart))
            doubt = (expected(kept) - kept * measured) * math.sqrt(unsure + _DOUBT**2)
            steep = np.abs(slope - float(size @ slope) / self.clients)
            if self.taper > 1.0:  # the weight of the first turn: a taper grows with the square of time
                steep = np.full_like(slope, (2.0 * math.pi) ** 2 / 6.0 / max(1.0, self.even) ** 2)
            begin = _BEGIN * float(size @ (steep * (1.0 - self.random)))
            allowed = common * quantile**2 + separate + doubt**2 + begin**2
            variance = common + separate if common + separate > _LEAST else 0.0  # less is what rounding leaves
            return math.sqrt(variance), math.sqrt(allowed + _LEAST)

        def distance(wanted: float) -> float:
            """Return the distance between means at which so much is expected."""
            if wanted <= alone or not measured:
                return 0.0
            most = 1.001 * wanted / measured
            return measured / self.taken * bisected(lambda kept: expected(kept) < wanted, 0.0, most, 1e-9)

        distributions = [_Distribution(mean, self.deviation, self._dispersed(mean)) for mean in self.spread()]
        noise = float(np.mean([size @ each.distance(each.mean)[0] for each in distributions])) / self.taken
        alone, (_, near), (se, here) = expected(0.0), errors(0.0), errors(root)
        excess = measured - alone
        below = min(1.0, max(0.0, _bounds(excess / here)[0] * here / excess)) if excess > 0.0 else 0.0
        lower = math.sqrt(near**2 + below * (here**2 - near**2))
        ends = _bounds(excess / lower)[0] * lower, _bounds(excess / here)[1] * here
        low, high = (distance(alone + end) for end in ends)
        fair = alone / self.taken if alone > _ROUNDING else 0.0
        return SamplingNoise(noise, se / self.taken, distance(measured), low, high, fair)


class _Distribution:
    """The distribution of counts of some means, by the deviation of what was rounded: both are arrays (levels,)."""

    def __init__(self, mean: Floats, deviation: Floats, dispersion: Floats | None = None) -> None:
        rounded, self._dispersion = dispersion is not None, dispersion
        exact = mean + _NODES[:, None] * deviation
        below = np.floor(exact) if rounded else exact
        over = exact - below
        self.mean, self._numbers = mean, np.concatenate([below, below + 1.0])
        self._shares = np.concatenate([1.0 - over, over]) * np.tile(_SHARES, 2)[:, None]
        self.variance = self._average(np.square(self._numbers - mean))

    def _average(self, values: Floats) -> Floats:
        return np.asarray(np.einsum("ij,ij->j", values, self._shares))

    def distance(self, centre: float | Floats) -> tuple[Floats, Floats, Floats]:
        """Return the mean of |n - c|, its slope on n, and the variance that is left."""
        values = np.abs(self._numbers - centre)
        mean = self._average(values)
        slope = self._average(values * (self._numbers - self.mean)) / np.maximum(self.variance, _LEAST)
        if self._dispersion is not None:  # |n - c| = n - c + 2c [n = 0] for c below 1
            few, none = np.less(centre, 1.0), self._none(self._dispersion)
            mean = np.where(few, self.mean - centre + 2.0 * centre * none, mean)
            slope = np.where(few, 1.0 - 2.0 * centre * none / self._dispersion, slope)
        rest = self._average(np.square(values)) - np.square(mean) - np.square(slope) * self.variance
        return mean, slope, np.maximum(rest, 0.0)

    def _none(self, dispersion: Floats) -> Floats:
        """Return the chance of a count of 0: that of the binomial, Poisson or negative binomial with this variance.

        Normal numbers with a mean below 0.7 would often lie below 0.
        """
        away = dispersion - 1.0
        power = np.divide(np.log(dispersion), away, out=np.ones_like(away), where=np.abs(away) > 1e-6)
        return np.asarray(np.exp(-np.maximum(self.mean, 0.0) * power))


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


def _bounds(observed: float) -> tuple[float, float]:
    """Return the 95 % interval of Feldman and Cousins of a mean that is not below 0, in standard errors."""
    if observed > 4.0:
        return observed - NORMAL, observed + NORMAL
    mean, least, most = _acceptance()
    return float(np.interp(observed, most, mean, left=0.0)), float(np.interp(observed, least, mean))


@cache
def _acceptance() -> tuple[Floats, Floats, Floats]:
    """Return means, and the least and the most that is observed with 95 %, in the order of the ratio of likelihoods."""
    mean = np.linspace(1e-6, 8.0, 4_001)
    narrow, wide = np.zeros_like(mean), np.full_like(mean, 6.0)
    for _ in range(50):
        half = (narrow + wide) / 2.0
        least = np.where(half <= mean, mean - half, (mean - np.square(half) / mean) / 2.0)
        inside = normal_below(half) - normal_below(least - mean) < 0.95
        narrow, wide = np.where(inside, half, narrow), np.where(inside, wide, half)
    return mean, least, mean + half
