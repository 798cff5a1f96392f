"""Drawing eligible units one after the other: propose from the whole population, then, if few accept, draw densely.

Both ways draw from the same law, sampling without replacement with probability proportional to weight among the
eligible (Plackett-Luce). Proposing costs O(count) whatever the population's size; the dense draw costs O(N) but needs
no luck. Which one is used depends on the proposals alone, so every engine chooses the same clients.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.keyed import Purpose
from fedsim.selection.candidates import Eligibility
from fedsim.selection.law import Request, Streams

_BLOCKS = 4
_SHARE = 16  # a dense draw looks at everyone: a sixteenth of that may go into proposals


class WeightedProposals:
    """Proposes units (clients or groups) by weight, eligible or not.

    Parameters
    ----------
    units
        How many there are.
    streams
        The run's draws.
    weights
        (units,) positive weights; None when all weigh the same.
    """

    def __init__(self, units: int, streams: Streams, weights: Floats | None = None) -> None:
        weighted = weights is not None
        self._proposing = streams(Purpose.LEADER if weighted else Purpose.SELECTION)
        self._deciding = streams(Purpose.LEADER_RACE if weighted else Purpose.SELECTION_RACE)
        self._units, self._cumulative = units, None if weights is None else np.cumsum(weights)
        if self._cumulative is not None:
            self._cumulative /= self._cumulative[-1]
        self._accepted = 0.5  # share of the proposals lately; it decides how many are made at once, and nothing else

    def enough_for(self, wanted: int) -> int:
        """Return a number of proposals that will probably yield so many clients."""
        return 16 + int((wanted + 3.0 * wanted**0.5) / self._accepted)

    def most_for(self, wanted: int) -> int:
        """Return how many proposals are made for a draw before it turns dense."""
        return max(_BLOCKS * max(16, 2 * wanted), self._units // _SHARE)

    def note(self, proposals: int, accepted: int) -> None:
        """Learn from the last proposals."""
        self._accepted = max((accepted + 1) / (proposals + 2), self._accepted / 4)

    def propose(self, number: int, first: int, count: int) -> Ints:
        """Return proposals `first` to `first + count - 1` of round `number`, eligible or not."""
        draws = self._proposing.uniforms_of_run(number, first, count)
        if self._cumulative is None:
            return np.minimum((draws * self._units).astype(np.int64), self._units - 1)
        return np.minimum(np.searchsorted(self._cumulative, draws, side="right"), self._units - 1)

    def race(self, number: int, units: Ints, count: int) -> Ints:
        """Return the first `count` of `units` in an exponential race with rates equal to the weights."""
        times = self._deciding.exponentials(units, number)
        if self._cumulative is not None:
            weights = np.diff(self._cumulative, prepend=0.0)[units]
            # A weight lost to rounding in the running sum still deserves its last place.
            times /= np.maximum(weights, np.finfo(np.float64).tiny)
        if count < len(units):
            nearest = np.argpartition(times, count - 1)[:count]
            units, times = units[nearest], times[nearest]
        return units[np.argsort(times, kind="stable")]


class FirstProposals(NamedTuple):
    """The first proposals of a draw, and which of them are eligible."""

    units: Ints
    eligible: Bools


def ask_first(
    request: Request, draws: Sequence[tuple[WeightedProposals, int]], among: Eligibility
) -> list[FirstProposals]:
    """Ask about the first proposals of several draws at once: each question costs some 40 us, however short.

    Parameters
    ----------
    request
        Its number is the key of the draws.
    draws
        Of each draw, its proposals and how many it is to choose.
    among
        Who is eligible.
    """
    sizes = [min(source.enough_for(count), source.most_for(count)) if count else 0 for source, count in draws]
    units = [source.propose(request.number, 0, size) for (source, _), size in zip(draws, sizes, strict=True)]
    answers = np.split(among.eligible(np.concatenate(units)), np.cumsum(sizes)[:-1])
    return [FirstProposals(*pair) for pair in zip(units, answers, strict=True)]


def draw(
    source: WeightedProposals,
    request: Request,
    count: int,
    among: Eligibility,
    taken: Ints | None = None,
    first: FirstProposals | None = None,
) -> Ints:
    """Draw `count` distinct eligible units one after the other, each by weight among those that are left.

    Parameters
    ----------
    source
        The units and their weights.
    request
        Its number is the key of the draws; where it names everyone who is eligible, nothing is proposed.
    count
        How many; all that are left, where fewer are eligible and not taken.
    among
        Who is eligible.
    taken
        Units that may not be drawn any more.
    first
        What `ask_first` found out about this draw.
    """
    chosen = np.empty(0, dtype=np.int64) if taken is None else taken
    if request.everyone is not None:
        left = np.setdiff1d(request.everyone, chosen, assume_unique=True)
        return source.race(request.number, left, count)
    already = len(chosen)
    missing, asked = count, 0
    most = source.most_for(count)
    while missing and asked < most:
        # How many are proposed at once makes no difference to who is chosen.
        if first is None or asked:
            proposals = source.propose(request.number, asked, min(source.enough_for(missing), most - asked))
            accepted = proposals[among.eligible(proposals)]
        else:
            proposals, accepted = first.units, first.units[first.eligible]
        size = len(proposals)
        source.note(size, len(accepted))
        if count > 1 or len(chosen):
            both = np.concatenate([chosen, accepted])
            accepted = both[np.sort(np.unique(both, return_index=True)[1])][len(chosen) :]
        chosen = np.concatenate([chosen, accepted])[: already + count]
        asked, missing = asked + size, count - (len(chosen) - already)
    if missing:
        mask = among.all_eligible()
        mask[chosen] = False
        chosen = np.concatenate([chosen, source.race(request.number, np.flatnonzero(mask), missing)])
    return chosen[already:]
