"""What the participation log means to training: who reported in each round, in which order."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.learning.failures import LearningError
from fedsim.log import slices


@dataclass(frozen=True)
class Cohorts:
    """The reported participations: those of row k are ``clients[first[k]:first[k + 1]]``."""

    rounds: NDArray[np.int64]
    closed_s: NDArray[np.float64]
    clients: NDArray[np.int64]
    first: NDArray[np.intp]

    @classmethod
    def read(cls, rounds: pl.DataFrame, participations: pl.DataFrame | pl.LazyFrame, clients: int) -> Self:
        """Take what training needs from the log's tables.

        Raises
        ------
        LearningError
            When the log has a client that the problem has not, or participations of a round that it has not.
        """
        ordered = rounds.select("round", "closed_s").sort("round")
        reported = (
            participations.lazy()
            .filter(pl.col("outcome").cast(pl.String) == "reported")
            .select("round", "position", "client")
            .sort("round", "position")
            .collect()
        )
        numbers = ordered["round"].to_numpy().astype(np.int64)
        of_round = reported["round"].to_numpy().astype(np.int64)
        client = reported["client"].to_numpy().astype(np.int64)
        if len(client) and not 0 <= client.min() <= client.max() < clients:
            found = client[(client < 0) | (client >= clients)][0]
            raise LearningError(f"client {found} of the log is not in the problem, which has {clients} clients")
        if len(strangers := np.setdiff1d(of_round, numbers)):
            raise LearningError(f"round {strangers[0]} has participations, and no row in the table of rounds")
        first = np.searchsorted(of_round, np.append(numbers, np.iinfo(np.int64).max))
        return cls(numbers, ordered["closed_s"].to_numpy().astype(np.float64), client, first)

    def __len__(self) -> int:
        return len(self.rounds)

    def number(self, step: int) -> int:
        """Return the number of the round in row `step`."""
        return int(self.rounds[step])

    def closed(self, step: int) -> float:
        """Return when it closed, in seconds since the start."""
        return float(self.closed_s[step])

    def of(self, step: int) -> NDArray[np.int64]:
        """Return who reported in it, in order."""
        return self.clients[self.first[step] : self.first[step + 1]]


def frequencies(participations: pl.DataFrame | pl.LazyFrame, clients: int) -> NDArray[np.float64]:
    """Return each client's share of the reported participations, shape (N,); zeros where nobody reported."""
    counts = np.zeros(clients, dtype=np.int64)
    for part in slices(participations, "outcome", "client"):
        reported = part.filter(pl.col("outcome").cast(pl.String) == "reported")["client"].to_numpy()
        counts += np.bincount(reported.astype(np.int64), minlength=clients)
    shares: NDArray[np.float64] = counts / max(1, counts.sum())
    return shares
