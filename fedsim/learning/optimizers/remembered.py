"""What a server remembers of every client: its last change. FedVARP and MIFA step with it.

The state is a matrix of N x d numbers; a round touches the rows of its cohort only.
"""

from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.learning.optimizers.optimizer import LongRun, PlainSteps


@dataclass(slots=True)
class Remembered:
    """The last change of each client, shape (N, d), zero before its first, and their mean, shape (d,)."""

    changes: Floats
    mean: Floats

    def keep(self, clients: Ints, deltas: Floats) -> None:
        """Replace the changes of these clients; the mean follows at the cost of the cohort, not of everyone."""
        before = self.changes[clients]
        self.changes[clients] = deltas
        if len(np.unique(clients)) < len(clients):
            self.mean = self.changes.mean(axis=0)
        else:
            self.mean = self.mean + (deltas - before).sum(axis=0) / len(self.changes)


class RemembersChanges(PlainSteps[Remembered]):
    """What optimizers share whose state is `Remembered`: all but the step."""

    def memory(self, clients: int, dimension: int) -> int:
        """Return 8 N d: a float for each client and parameter."""
        return 8 * clients * dimension

    def init(self, clients: int, dimension: int) -> Remembered:
        """Return a memory in which nobody has done anything."""
        return Remembered(np.zeros((clients, dimension)), np.zeros(dimension))

    def long_run(self, pi: Floats) -> LongRun:
        """Return even weights for everyone who takes part; what is remembered of the others stays zero."""
        return LongRun((pi > 0) / len(pi), np.ones(len(pi)))
