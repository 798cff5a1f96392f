"""Stratified selection: each group of the population gets its share of the cohort, and within it goes by weight.

The share of group g is W_g, the sum of its p_i, times the size of the cohort; it is rounded down or up by one draw a
round, so that the quotas sum to the size and each is W_g times it on average (systematic sampling). Within a group
clients are drawn one after the other by weight. Places that a group cannot fill go to the others, by weight. Each
selection looks at all clients, O(N).
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.law import Candidates, Request

_ROUNDING = 1  # index of the draw that rounds the quotas; 0 is that of the race


class Stratified:
    """Each group its share of the cohort by weight, within it one by one by weight."""

    def __init__(self, weights: Floats) -> None:
        self._weights = weights

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i brings them in."""
        groups = candidates.group(np.arange(len(candidates)))
        eligible = np.flatnonzero(candidates.all_eligible()) if request.everyone is None else request.everyone
        eligible = eligible[np.argsort(-np.log(request.uniforms(eligible)) / self._weights[eligible], kind="stable")]
        draw = float(request.uniforms(0, _ROUNDING)[0])
        quotas = rounded_quotas(np.asarray(np.bincount(groups, self._weights), dtype=np.float64) * request.count, draw)
        own = groups[eligible]
        order = np.argsort(own, kind="stable")
        first = np.searchsorted(own[order], np.arange(len(quotas)))
        place = np.empty(len(own), dtype=np.int64)  # in the race of its own group
        place[order] = np.arange(len(own)) - first[own[order]]
        within = place < quotas[own]
        left = request.count - int(np.count_nonzero(within))
        within[np.flatnonzero(~within)[:left]] = True
        return eligible[within]


def rounded_quotas(expected: Floats, draw: float) -> Ints:
    """Round numbers (n,) with a whole sum down or up: the sum stays, and the average over draws in (0, 1) is exact."""
    edges = np.cumsum(expected)
    edges[-1] = round(float(edges[-1]))
    return np.diff(np.floor(edges + draw), prepend=np.floor(draw)).astype(np.int64)
