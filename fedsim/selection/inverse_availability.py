"""Selection by weight over estimated availability: who is seldom there is preferred when it is.

The server has seen in each of its selections who was eligible. It estimates how available client i is by
a_i = (times eligible + 1) / (selections + 2), this selection included (the mean of a uniform prior), and chooses one
client after the other by weight p_i / a_i among those left (Plackett-Luce). While cohorts are small beside those who
are eligible, each takes part in proportion to p_i, however seldom it is there. Where everybody is always eligible it is
`successive`. Each selection looks at all clients, O(N).
"""

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.selection.law import Candidates, Memory, Request


class InverseAvailability:
    """One by one by weight over the share of earlier selections in which the client was eligible."""

    def __init__(self, weights: Floats) -> None:
        self._weights, self._seen, self._selections = weights, np.zeros(len(weights), dtype=np.int64), 0

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order in which an exponential race with rates p_i / a_i brings them in."""
        eligible = np.flatnonzero(candidates.all_eligible()) if request.everyone is None else request.everyone
        self._seen[eligible] += 1
        self._selections += 1
        rates = self._weights[eligible] / _estimated_availability(self._seen[eligible], self._selections)
        race = -np.log(request.uniforms(eligible)) / rates
        return eligible[np.argsort(race, kind="stable")[: request.count]]

    def state(self) -> Memory:
        """Return what it has seen."""
        return {"seen": self._seen, "selections": np.array(self._selections)}

    def restore(self, state: Memory) -> None:
        """Go on from what `state` returned."""
        self._seen, self._selections = state["seen"].copy(), int(state["selections"])


def _estimated_availability(seen: Ints, selections: int) -> Floats:
    """Return that (n,) of clients that were eligible so often in so many selections."""
    return np.asarray((seen + 1.0) / (selections + 2.0), dtype=np.float64)
