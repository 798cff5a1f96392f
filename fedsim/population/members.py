"""The clients of one group, and the draws that say what each of them gets.

One score says how available the person behind a device makes it; habits go by it, and other quantities may.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsim.common.arrays import Floats, Ints
from fedsim.common.keyed import Stream
from fedsim.population.distributions.distribution import Distribution, within
from fedsim.scenario.sources import Drawn

VALUE, PART = 0, 1
"""Indices of a client's draws for one quantity: its value, and the part of a mixture that it belongs to."""
PROPENSITY = 1 << 48
"""Index of the score among a client's draws for availability."""


def propensity(clients: Ints, draws: Stream) -> Floats:
    """Return how available each device is by habit: a standard normal score.

    Devices of high score charge on more days, have an unmetered network more often, and are used less often. All else
    about a person is independent of it.

    Parameters
    ----------
    clients
        Indices of devices.
    draws
        The stream for availability.
    """
    return draws.normals(clients, PROPENSITY)


@dataclass(frozen=True)
class Members:
    """The clients of one group, and what their quantities can go with.

    Attributes
    ----------
    clients
        (n,) indices in the population, the keys of the draws.
    habits
        The stream for availability, of which each one's propensity is drawn.
    locate
        Finds the file that the scenario calls so, or raises `ValueError`.
    """

    clients: Ints
    habits: Stream
    locate: Callable[[str], Path]

    def __len__(self) -> int:
        return len(self.clients)

    def _scores(self, source: Drawn, draws: Stream, index: int) -> Floats:
        """Return a standard normal score (n,) for each client, correlated as the source says.

        z = rho * (score of the other property) + sqrt(1 - rho^2) * (own draw): a Gaussian copula.
        """
        own = draws.normals(self.clients, index)
        if source.correlation is None:
            return own
        if source.correlation.to == "availability":
            other = propensity(self.clients, self.habits)
        else:
            from scipy.special import ndtri  # takes long to import

            other = np.asarray(ndtri((np.arange(len(self)) + 0.5) / len(self)), dtype=np.float64)
        rho = source.correlation.rho
        return np.asarray(rho * other + np.sqrt(1 - rho**2) * own)

    def values(self, law: Distribution, source: Drawn, draws: Stream) -> Floats:
        """Return a value (n,) of a law for each client: by a draw of its own, or by its rank, as the law says."""
        if law.ranked:
            return law.quantile(1.0 - (self._ranks(source, draws) + 0.5) / len(self))
        if source.correlation is None:
            return law.quantile(draws.uniforms(self.clients, VALUE))
        return law.of_scores(self._scores(source, draws, VALUE))

    def parts(self, source: Drawn, shares: list[float], draws: Stream) -> NDArray[np.intp]:
        """Return the part (n,) of a mixture that each client belongs to, with chances proportional to the shares."""
        until = np.cumsum(shares)
        if source.correlation is None:
            lots = draws.uniforms(self.clients, PART)
        else:
            lots = within(self._scores(source, draws, PART))
        chosen = np.searchsorted(until / until[-1], lots, side="right")
        return np.minimum(chosen, len(shares) - 1)

    def _ranks(self, source: Drawn, draws: Stream) -> Ints:
        """Return the rank (n,) of each client, from 0: its place, or that of its score, the largest first."""
        if source.correlation is None:
            return np.arange(len(self))
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[np.argsort(-self._scores(source, draws, VALUE), kind="stable")] = np.arange(len(self))
        return ranks
