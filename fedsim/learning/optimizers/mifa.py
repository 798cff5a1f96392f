"""MIFA: the server steps along the mean of what every client did last, however long ago that was.

::

    G_i     = Delta_i  for i in S_t;    G_i as it was for the others, 0 before a client first takes part
    x_{t+1} = x_t + (1/N) sum_i G_i

Everyone has the same weight in every round, so participation does not bias it; it pays with directions that are out
of date, the more so the longer clients stay away. The authors let every client take part once before the first step;
here a client counts for nothing until it has. Over a buffered log G_i is the last report that arrived, however stale,
and the step is that of incremental aggregated gradients with delays. A server step size other than 1 is a server
update of its own.

The state is a matrix of N x d numbers; a round touches the rows of its cohort only.

References
----------
Gu, Huang, Zhang and Huang, *Fast Federated Learning in the Presence of Arbitrary Device Unavailability*,
NeurIPS 2021, arXiv:2106.04159, Algorithm 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.learning.optimizers.fedvarp import Remembered
from fedsim.learning.optimizers.optimizer import Cohort, LongRun


@dataclass(frozen=True)
class Mifa:
    """MIFA. It has no options; its state is the last change of each client."""

    def memory(self, clients: int, dimension: int) -> int:
        """Return 8 N d: a float for each client and parameter."""
        return 8 * clients * dimension

    def init(self, clients: int, dimension: int) -> Remembered:
        """Return an empty memory."""
        return Remembered.nothing(clients, dimension)

    def prepare(self, state: Remembered, cohort: Cohort) -> tuple[Remembered, NDArray[np.float64]]:
        """Return ones: every client takes the plain local step."""
        return state, np.ones(len(cohort.clients))

    def apply(
        self, state: Remembered, model: NDArray[np.float64], cohort: Cohort, deltas: NDArray[np.float64]
    ) -> tuple[Remembered, NDArray[np.float64]]:
        """Remember the cohort's changes, and return the model moved by the mean over everyone."""
        state.keep(cohort.clients, deltas)
        return state, model + state.mean

    def long_run(self, pi: NDArray[np.float64]) -> LongRun:
        """Return even weights for everyone who takes part."""
        return LongRun((pi > 0) / len(pi), np.ones(len(pi)))
