"""Laws that put the eligible clients in an order and take the first: cyclic, by age, by strata, by availability.

All but the cyclic one look at all clients in each selection, O(N).
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.law import Candidates, Memory, Request

_ROUNDING = 1  # index of the draw that rounds the quotas of strata; 0 is that of the race


def _everyone(request: Request, candidates: Candidates) -> Ints:
    """Return all eligible clients in the order of their indices."""
    return np.flatnonzero(candidates.all_eligible()) if request.everyone is None else request.everyone


def _raced(request: Request, clients: Ints, rates: Floats) -> Ints:
    """Return clients (n,) in the order in which an exponential race with these rates (n,) brings them in."""
    return clients[np.argsort(-np.log(request.uniforms(clients)) / rates, kind="stable")]


class Cyclic:
    """Every client in turn: the next eligible ones after the one that was selected last."""

    theory = "cyclic"
    finds_shortage = True

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return clients in turn."""
        clients = len(candidates)
        if request.everyone is not None:
            return request.everyone[np.argsort((request.everyone - request.after - 1) % clients)]
        found = np.empty(0, dtype=np.int64)
        offset, size = 0, 4 * request.count
        while len(found) < request.count and offset < clients:
            window = (request.after + 1 + np.arange(offset, min(offset + size, clients))) % clients
            found = np.concatenate([found, window[candidates.eligible(window)]])
            offset, size = offset + size, 2 * size
        return found[: request.count]


class Age:
    """The clients that were selected longest ago; weights make no difference.

    This is selection by age of information: who never was selected comes first. Among clients of the same age the order
    is drawn anew in every round.
    """

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order of their ages, the oldest first."""
        eligible = _everyone(request, candidates)
        order = np.lexsort((request.uniforms(eligible), candidates.last_round(eligible)))
        return eligible[order[: request.count]]


class Stratified:
    """Each group its share of the cohort by weight, within it one by one by weight.

    The share of group g is W_g, the sum of its p_i, times the size of the cohort; it is rounded down or up by one draw
    a round, so that the quotas sum to the size and each is W_g times it on average (systematic sampling). Places that a
    group cannot fill go to the others, by weight.
    """

    def __init__(self, weights: Floats) -> None:
        self._weights = weights

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i brings them in."""
        groups = candidates.group(np.arange(len(candidates)))
        eligible = _everyone(request, candidates)
        eligible = _raced(request, eligible, self._weights[eligible])
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


class InverseAvailability:
    """One by one by weight over the share of earlier selections in which the client was eligible.

    The server estimates how available client i is by a_i = (times eligible + 1) / (selections + 2), this selection
    included (the mean of a uniform prior), and chooses one client after the other by weight p_i / a_i among those left
    (Plackett-Luce). While cohorts are small beside those who are eligible, each takes part in proportion to p_i,
    however seldom it is there. Where everybody is always eligible it is `successive`.
    """

    def __init__(self, weights: Floats) -> None:
        self._weights, self._seen, self._selections = weights, np.zeros(len(weights), dtype=np.int64), 0

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i / a_i brings them in."""
        eligible = _everyone(request, candidates)
        self._seen[eligible] += 1
        self._selections += 1
        availability = (self._seen[eligible] + 1.0) / (self._selections + 2.0)
        return _raced(request, eligible, self._weights[eligible] / availability)[: request.count]

    def state(self) -> Memory:
        """Return what it has seen."""
        return {"seen": self._seen, "selections": np.array(self._selections)}

    def restore(self, state: Memory) -> None:
        """Go on from what `state` returned."""
        self._seen, self._selections = state["seen"].copy(), int(state["selections"])
