"""Laws that go by the loss that each client reported last: Power-of-Choice, and in proportion to it.

Who has never reported counts as having an infinite loss for Power-of-Choice, and the largest that was heard of for the
other law, so that nobody is left out for good.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.built_in import everyone_eligible, raced
from fedsim.selection.law import Candidates, Feedback, Remembers, Request

_EXPLORED, _ROUNDING = 1, 2  # indices of the draws; 0 is that of the race
_NONE = 1e-300  # a rate that is all but 0


class _LastLosses(Remembers):
    """Keeps the loss that each client reported last, NaN before the first."""

    remembered = ("_losses",)

    def __init__(self, weights: Floats) -> None:
        self._weights, self._losses = weights, np.full(len(weights), np.nan)

    def take_feedback(self, feedback: Feedback) -> None:
        """Note the losses of those who reported."""
        self._losses[feedback.clients[feedback.reported]] = feedback.losses[feedback.reported]


class PowerOfChoice(_LastLosses):
    """Draws candidates by weight, and takes those whose last loss was largest; it needs feedback.

    This is rpow-d of Cho, Wang and Joshi, *Client Selection in Federated Learning: Convergence Analysis and
    Power-of-Choice Selection Strategies*, arXiv:2010.01243: a client's loss is the one that it last reported, and
    infinite before that, so that candidates are not asked for losses of their own.
    """

    candidates: int | None
    """d: how many are drawn, without replacement; at least as many as are wanted. Twice as many, where not given."""

    def __init__(self, weights: Floats, candidates: Annotated[int, Field(ge=1, le=10_000_000)] | None = None) -> None:
        super().__init__(weights)
        self._candidates = candidates

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the candidates with the largest losses, the largest first, those drawn earlier first among equals."""
        drawn = max(request.count, self._candidates or 2 * request.count)
        eligible = everyone_eligible(request, candidates)
        clients = raced(request, eligible, self._weights[eligible])[:drawn]
        losses = np.nan_to_num(self._losses[clients], nan=np.inf)
        return clients[np.argsort(-losses, kind="stable")[: request.count]]


class LossProportional(_LastLosses):
    """One by one in proportion to the last loss, but for a share of the cohort drawn evenly; it needs feedback.

    After Goetz, Malik, Bui, Moon, Liu and Kumar, *Active Federated Learning*, arXiv:1909.12641, which draws a share of
    each cohort evenly and the rest by a softmax of the losses; here the rest goes in proportion to them.
    """

    exploration: float
    """Share of a cohort drawn evenly; rounded down or up by a draw, so that the mean over rounds is exact."""

    def __init__(self, weights: Floats, exploration: Annotated[float, Field(ge=0, le=1)] = 0.1) -> None:
        super().__init__(weights)
        self._exploration = exploration

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those drawn by loss, then those drawn evenly."""
        eligible, heard = everyone_eligible(request, candidates), ~np.isnan(self._losses)
        largest = self._losses[heard].max() if heard.any() else 1.0
        losses = np.nan_to_num(self._losses[eligible], nan=largest)
        evenly = int(self._exploration * request.count + request.uniforms(0, _ROUNDING)[0])
        by_loss = raced(request, eligible, np.maximum(losses, _NONE))[: request.count - evenly]
        rest = np.setdiff1d(eligible, by_loss, assume_unique=True)
        others = rest[np.argsort(request.uniforms(rest, _EXPLORED), kind="stable")[:evenly]]
        return np.concatenate([by_loss, others])
