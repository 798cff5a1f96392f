"""The cap on participations: who has taken part as often as it may is out for good."""

from typing import Final

import numpy as np

from fedsim.common.arrays import Ints
from fedsim.log.columns import Arrays
from fedsim.simulation.cooldown import Cooldown

NEVER: Final = 1 << 62
"""The round in which clients are free again that are out for good."""


class Caps:
    """How often each client has taken part, where there is a cap on it; what counts is what starts a cool-down.

    Parameters
    ----------
    most
        (N,) participations that each client may have; None where no client has a cap.
    """

    def __init__(self, most: Ints | None) -> None:
        self._most = most
        self._taken = np.zeros(0 if most is None else len(most), dtype=np.int64)

    def count(self, clients: Ints, until: Cooldown) -> Cooldown:
        """Count a participation of each client (n,), and return the cool-downs: for ever, where none is left."""
        if self._most is None:
            return until
        self._taken[clients] += 1
        spent = self._taken[clients] >= self._most[clients]
        return until._replace(until_round=np.where(spent, NEVER, until.until_round))

    def spent(self) -> Ints:
        """Return the clients who have no participation left."""
        return np.flatnonzero(self._taken >= self._most) if self._most is not None else np.empty(0, dtype=np.int64)

    def state(self) -> Arrays:
        """Return all that is needed to go on; nothing without a cap."""
        return {} if self._most is None else {"taken": self._taken}

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        if self._most is not None:
            self._taken = state["taken"]
