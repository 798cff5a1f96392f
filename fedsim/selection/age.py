"""Selection by age of information: who was selected longest ago comes first, and before them who never was.

Among clients of the same age the order is drawn anew in every round. Each selection looks at all clients, O(N).
"""

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.selection.law import Candidates, Request


class Age:
    """The clients that were selected longest ago; weights make no difference."""

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in the order of their ages, the oldest first."""
        eligible = np.flatnonzero(candidates.all_eligible()) if request.everyone is None else request.everyone
        order = np.lexsort((request.uniforms(eligible), candidates.last_round(eligible)))
        return eligible[order[: request.count]]
