"""Contributions: the reports that the server took, and how often and how far apart those of one client were.

A report that is taken in a round is what reaches the model, so it is what a guarantee of privacy counts. With a
buffered server the round is the version at which it was taken: that of its selection plus its staleness.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.files import slices
from fedsim.log import with_staleness


class Pulls:
    """Adds up with what weight N clients move the model: each of the n reports of a round weighs 1/n.

    `numbers`, ascending, are those of the rounds (versions), and `sizes` says how many reports each takes. With one
    size the sums are counts of reports.
    """

    def __init__(self, numbers: Ints, sizes: Ints, clients: int) -> None:
        self._numbers, self._sums = numbers, np.zeros(clients)
        self._worth = np.divide(sizes.max(initial=0), sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def add(self, client: Ints, number: Ints) -> None:
        """Take reports, and the number of the round for which each counts."""
        np.add.at(self._sums, client, self._worth[np.searchsorted(self._numbers, number)])

    def pulls(self) -> Floats:
        """Return w_i, (N,): the mean of 1{i in S}/|S| over the rounds that take reports; zeros where none does."""
        return self._sums / (float(self._sums.sum()) or 1.0)


def reports(participations: pl.DataFrame | pl.LazyFrame) -> pl.LazyFrame:
    """Return the reports that were taken: ``client``, and ``at``, the round or version that took it."""
    taken = with_staleness(participations).lazy().filter(pl.col("outcome").cast(pl.String) == "reported")
    at = pl.col("round").cast(pl.Int64) + pl.col("staleness").cast(pl.Int64).fill_null(0)
    return taken.select(pl.col("client").cast(pl.Int64), at=at)


def pulls(participations: pl.DataFrame | pl.LazyFrame, clients: int, buffer: int | None = None) -> Floats:
    """Return the `Pulls` of N clients, (N,), from a table of participations; with a `buffer` full versions count."""
    sizes = reports(participations).with_columns(size=pl.len().over("at"))
    if buffer is not None:
        sizes = sizes.filter(pl.col("size") == buffer)
    client, number, size = (column.to_numpy() for column in sizes.sort("at").collect())
    rounds, first = np.unique(number, return_index=True)
    totals = Pulls(rounds, size[first].astype(np.int64), clients)
    totals.add(client, number)
    return totals.pulls()


@dataclass(frozen=True)
class Contributions:
    """The contributions of all clients in one log."""

    most: int  # of one client, `most_client`
    most_client: int
    least_separation: int | None  # rounds from one of a client to its next; 1: in two rounds running; None without two
    least_client: int  # who had it
    least_round: int  # the round of the later of these two
    last_round: int  # with a contribution, -1 for none


def contributions(participations: pl.DataFrame | pl.LazyFrame, clients: int) -> Contributions:
    """Count the contributions of N clients in a table of participations in the order of selection."""
    counts, separations = np.zeros(clients, dtype=np.int64), Separations(clients)
    for part in slices(with_staleness(participations), "round", "client", "outcome", "staleness"):
        client, at = reports(part).collect().to_numpy().T
        counts += np.bincount(client, minlength=clients)
        separations.add(client, at)
    return separations.contributions(counts)


class Separations:
    """Finds the fewest rounds from one contribution of a client to its next, and where that was."""

    def __init__(self, clients: int) -> None:
        self._least: int | None = None
        self._client, self._at_round = -1, -1
        self._last: Ints = np.full(clients, -1, dtype=np.int64)

    def add(self, client: Ints, at: Ints) -> None:
        """Take the next contributions, in the order of selection, and the rounds that took them."""
        if not len(client):
            return
        order = np.lexsort((at, client))
        client, at = client[order], at[order]
        again = np.concatenate([np.zeros(1, dtype=bool), client[1:] == client[:-1]])
        before = np.where(again, np.concatenate([[-1], at[:-1]]), self._last[client])
        between = np.where(before >= 0, at - before, np.iinfo(np.int64).max)
        place = int(between.argmin())
        if before[place] >= 0 and (self._least is None or between[place] < self._least):
            self._least, self._at_round, self._client = int(between[place]), int(at[place]), int(client[place])
        self._last[client] = at  # the last one of a client stands last

    def contributions(self, counts: Ints) -> Contributions:
        """Return the contributions of clients, (N,), of which each made so many."""
        whom = int(counts.argmax())
        last = int(self._last.max(initial=-1))
        return Contributions(int(counts[whom]), whom, self._least, self._client, self._at_round, last)
