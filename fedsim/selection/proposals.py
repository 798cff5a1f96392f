"""Drawing eligible units one after the other: propose from the whole population, then, if few accept, draw densely.

Both ways draw from the same law, sampling without replacement with probability proportional to weight among the
eligible (Plackett-Luce). Proposing costs O(count) whatever the population's size; the dense draw costs O(N) but needs
no luck. Which one is used depends on the proposals and the request alone, so every engine chooses the same clients.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Bits, Bools, Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.law import Eligibility, Request, Streams

_BLOCKS = 4
_LEAST_RATE = 1e-290
_SHARE = 16  # a dense draw looks at everyone: a sixteenth of that may go into proposals,
_BY_WEIGHT = 4096  # and of those by weight, which go to the same heavy units again while these cool down, no more
_MANY = 1 << 16  # beyond so many weights a search through all of them takes longer than loading a compiler


class WeightedProposals:
    """Proposes units (clients or groups) by weight, eligible or not; `weights` (units,) is None where all are equal."""

    def __init__(self, units: int, streams: Streams, weights: Floats | None = None) -> None:
        weighted = weights is not None
        self._proposing = streams(Purpose.LEADER if weighted else Purpose.SELECTION)
        self._deciding = streams(Purpose.LEADER_RACE if weighted else Purpose.SELECTION_RACE)
        self._units, self._cumulative = units, None if weights is None else np.cumsum(weights)
        if self._cumulative is not None:
            self._cumulative /= self._cumulative[-1]
        self._guide: NDArray[np.int32] | None = None
        # Shares that were eligible lately, of the proposals and of the first in a race: they decide how many are asked
        # about at once, and nothing else.
        self._accepted = self._raced = 0.5

    def enough_for(self, wanted: int) -> int:
        """Return a number of proposals that will probably yield so many clients."""
        return 16 + int((wanted + 3.0 * wanted**0.5) / self._accepted)

    def most_for(self, wanted: int) -> int:
        """Return how many proposals are made for a draw before it turns dense."""
        share = self._units // _SHARE
        return max(_BLOCKS * max(16, 2 * wanted), share if self._cumulative is None else min(share, _BY_WEIGHT))

    def note(self, proposals: int, accepted: int) -> None:
        """Learn from the last proposals."""
        self._accepted = max((accepted + 1) / (proposals + 2), self._accepted / 4)

    def propose(self, number: int, first: int, count: int, possible: Bits | None = None) -> Ints:
        """Return proposals `first` to `first + count - 1` of round `number`; with `possible`, those among them."""
        if possible is None and (self._cumulative is None or self._units <= _MANY):
            draws = self._proposing.uniforms(number, np.arange(first, first + count))
            if self._cumulative is None:
                return np.minimum((draws * self._units).astype(np.int64), self._units - 1)
            return np.minimum(self._cumulative.searchsorted(draws, side="right"), self._units - 1)
        # This loads a compiler: only for very many units, or where bits are there, whose owner has loaded it.
        from fedsim.selection.screened import guide_to, proposed_by_weight, proposed_evenly

        word = self._proposing.of_clients(number)[0]
        if possible is None:
            possible = np.full((self._units + 63) // 64, ~np.uint64(0))
        if self._cumulative is None:
            return proposed_evenly(word, first, count, self._units, possible)
        if self._guide is None:
            self._guide = guide_to(self._cumulative)
        return proposed_by_weight(word, first, count, self._cumulative, self._guide, possible)

    def members(self, possible: Bits) -> Bools:
        """Return the mask (units,) of the units in a set of bits."""
        return np.unpackbits(possible.view(np.uint8), count=self._units, bitorder="little").view(np.bool_)

    @cached_property
    def _rates(self) -> Floats:
        """(units,) weights, of which one that is lost to rounding in the running sum still has its last place."""
        assert self._cumulative is not None
        return np.maximum(np.diff(self._cumulative, prepend=0.0), _LEAST_RATE)

    def race(self, number: int, units: Ints, count: int, among: Eligibility) -> Ints:
        """Return the first `count` eligible ones of `units` in an exponential race with rates equal to the weights.

        `among` is asked about few beyond these.
        """
        times = self._deciding.exponentials(units, number)
        if self._cumulative is not None:
            times /= self._rates[units]
        share = self._raced
        while True:
            size = int(count / share)
            first = times.argpartition(size - 1)[:size] if size < len(units) else np.arange(len(units))
            eligible = first[among.eligible(units[first])]
            if len(eligible) >= count or len(first) == len(units):
                break
            share /= 3
        if len(first):
            self._raced = max(0.8 * len(eligible) / len(first), 1e-3)
        return units[eligible[np.argsort(times[eligible], kind="stable")[:count]]]


def draw(
    source: WeightedProposals, request: Request, count: int, among: Eligibility, taken: Ints | None = None
) -> Ints:
    """Draw `count` distinct eligible units one after the other, each by weight among those that are left.

    All that are left are drawn where they are fewer. Units in `taken` are not drawn again. Where the request names
    everyone who is eligible, or few are connected, nothing is proposed.
    """
    chosen = np.empty(0, dtype=np.int64) if taken is None else taken
    if request.everyone is not None:
        left = np.setdiff1d(request.everyone, chosen, assume_unique=True)
        return source.race(request.number, left, count, among)
    already = len(chosen)
    missing, asked = count, 0
    most = 0 if request.few else source.most_for(count)
    possible = among.possible()
    while missing and asked < most:
        # How many are proposed at once makes no difference to who is chosen.
        size = min(source.enough_for(missing), most - asked)
        proposals = source.propose(request.number, asked, size, possible)
        eligible = among.eligible(proposals)
        source.note(size, int(eligible.sum()))
        if count > 1 or len(chosen):
            accepted = first_of_each(np.concatenate([chosen, proposals[eligible]]))[len(chosen) :][:missing]
        else:
            accepted = proposals[eligible][:1]
        chosen = np.concatenate([chosen, accepted])
        asked, missing = asked + size, count - (len(chosen) - already)
    if missing:
        mask = among.all_eligible() if possible is None else source.members(possible)
        mask[chosen] = False
        chosen = np.concatenate([chosen, source.race(request.number, np.flatnonzero(mask), missing, among)])
    return chosen[already:]


def first_of_each(units: Ints) -> Ints:
    """Return each unit where it comes first."""
    order = units.argsort(kind="stable")
    ascending = units[order]
    first = np.ones(len(units), dtype=np.bool_)
    first[order[1:]] = ascending[1:] != ascending[:-1]
    return units[first]
