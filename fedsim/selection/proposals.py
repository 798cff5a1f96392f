"""Drawing eligible units one after the other: propose from the whole population, then, if few accept, draw densely.

Both ways draw from the same law, sampling without replacement with probability proportional to weight among the
eligible (Plackett-Luce). Proposing costs O(count) whatever the population's size; the dense draw costs O(N) but needs
no luck. Which one is used depends on the proposals alone, so every engine chooses the same clients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.common.keyed import Stream

Eligible: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
_BLOCKS = 4
_SHARE = 16  # a dense draw looks at everyone: a sixteenth of that may go into proposals


class Pace:
    """What share of the proposals was of use lately; it decides how many are made at once, and nothing else."""

    def __init__(self) -> None:
        self._share = 0.5

    def enough_for(self, wanted: int) -> int:
        """Return a number of proposals that will probably yield so many clients."""
        return 16 + int((wanted + 3.0 * wanted**0.5) / self._share)

    def note(self, proposals: int, useful: int) -> None:
        """Learn from the last proposals."""
        self._share = max((useful + 1) / (proposals + 2), self._share / 4)


@dataclass(frozen=True)
class Urn:
    """Units (clients or groups) to draw by weight.

    Attributes
    ----------
    units
        How many there are.
    cumulative
        (units,) running sum of the weights, ending at 1; None when all weigh the same.
    proposing, deciding
        Streams for the proposals and for the dense draw.
    pace
        How many proposals it took lately.
    """

    units: int
    cumulative: NDArray[np.float64] | None
    proposing: Stream
    deciding: Stream
    pace: Pace = field(default_factory=Pace)

    def propose(self, number: int, first: int, count: int) -> NDArray[np.int64]:
        """Return proposals `first` to `first + count - 1` of round `number`, eligible or not."""
        draws = self.proposing.uniforms_of_run(number, first, count)
        if self.cumulative is None:
            return np.minimum((draws * self.units).astype(np.int64), self.units - 1)
        return np.minimum(np.searchsorted(self.cumulative, draws, side="right"), self.units - 1)

    def race(self, number: int, units: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return the first `count` of `units` in an exponential race with rates equal to the weights."""
        times = self.deciding.exponentials(units, number)
        if self.cumulative is not None:
            weights = np.diff(self.cumulative, prepend=0.0)[units]
            # A weight lost to rounding in the running sum still deserves its last place.
            times /= np.maximum(weights, np.finfo(np.float64).tiny)
        if count < len(units):
            nearest = np.argpartition(times, count - 1)[:count]
            units, times = units[nearest], times[nearest]
        return units[np.argsort(times, kind="stable")]


def urn(weights: NDArray[np.float64] | None, units: int, proposing: Stream, deciding: Stream) -> Urn:
    """Return the urn for `weights` (units,), or for equal ones when None."""
    if weights is None:
        return Urn(units, None, proposing, deciding)
    cumulative = np.cumsum(weights)
    return Urn(units, cumulative / cumulative[-1], proposing, deciding)


class Look(NamedTuple):
    """The first proposals of a draw, and which of them are eligible."""

    proposals: NDArray[np.int64]
    eligible: NDArray[np.bool_]


def look(number: int, draws: Sequence[tuple[Urn, int]], eligible: Eligible) -> list[Look]:
    """Ask about the first proposals of several draws at once: a question has a price of its own, however short.

    Parameters
    ----------
    number
        The round, the key of the draws.
    draws
        Of each draw, the urn and how many it is to choose.
    eligible
        The predicate for some units.
    """
    sizes = [min(urn.pace.enough_for(count), _most(urn, count)) if count else 0 for urn, count in draws]
    proposals = [urn.propose(number, 0, size) for (urn, _), size in zip(draws, sizes, strict=True)]
    answers = np.split(eligible(np.concatenate(proposals)), np.cumsum(sizes)[:-1])
    return [Look(*pair) for pair in zip(proposals, answers, strict=True)]


def draw(
    urn: Urn,
    number: int,
    count: int,
    eligible: Eligible,
    all_eligible: Callable[[], NDArray[np.bool_]],
    taken: NDArray[np.int64] | None = None,
    looked: Look | None = None,
) -> NDArray[np.int64]:
    """Draw `count` distinct eligible units one after the other, each by weight among those that are left.

    Parameters
    ----------
    urn
        The units and their weights.
    number
        The round, the key of the draws.
    count
        How many; at least so many are eligible and not taken.
    eligible, all_eligible
        The predicate for some units, and the mask over all.
    taken
        Units that may not be drawn any more.
    looked
        What `look` found out about this draw.
    """
    chosen = np.empty(0, dtype=np.int64) if taken is None else taken
    already = len(chosen)
    missing, asked = count, 0
    most = _most(urn, count)
    while missing and asked < most:
        # How many are proposed at once makes no difference to who is chosen.
        if looked is None or asked:
            proposals = urn.propose(number, asked, min(urn.pace.enough_for(missing), most - asked))
            accepted = proposals[eligible(proposals)]
        else:
            proposals, accepted = looked.proposals, looked.proposals[looked.eligible]
        size = len(proposals)
        urn.pace.note(size, len(accepted))
        if count > 1 or len(chosen):
            both = np.concatenate([chosen, accepted])
            accepted = both[np.sort(np.unique(both, return_index=True)[1])][len(chosen) :]
        chosen = np.concatenate([chosen, accepted])[: already + count]
        asked, missing = asked + size, count - (len(chosen) - already)
    if missing:
        left = all_eligible().copy()
        left[chosen] = False
        chosen = np.concatenate([chosen, urn.race(number, np.flatnonzero(left), missing)])
    return chosen[already:]


def _most(urn: Urn, count: int) -> int:
    """Return how many proposals are made for a draw before it turns dense."""
    return max(_BLOCKS * max(16, 2 * count), urn.units // _SHARE)
