"""Whose work each server step of a participation log takes, and from which model that work began."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.row_groups import slices
from fedsim.learning.failures import LearningError

_NEVER = np.iinfo(np.int64).min


class Reports(NamedTuple):
    """The clients whose reports count for one row, in their order, shape (B,).

    For a buffered server also the rows of the versions that they downloaded, and how many earlier reports of the same
    client began with the same version.
    """

    clients: Ints
    begun: NDArray[np.intp] | None = None
    repeats: Ints | None = None


@dataclass(frozen=True)
class Cohorts:
    """Whose reports count for each row of the log. The log is read in parts; a few numbers are kept of each row."""

    # rounds, closed_s: (T,) number of each round or version, and when it closed
    rounds: Ints
    closed_s: Floats
    counts: Ints  # (T,) how many reports count for it
    participants: int  # how many different clients have a report that counts
    # (T,) the last row with a report that began with the version of this one, -1 for none; None for synchronous rounds
    needed: NDArray[np.intp] | None
    _participations: pl.DataFrame | pl.LazyFrame

    @staticmethod
    def read(
        rounds: pl.DataFrame,
        participations: pl.DataFrame | pl.LazyFrame,
        clients: int,
        buffer: int | None = None,
    ) -> "Cohorts":
        """Return what training needs of a log with N clients; rounds out of order are sorted in memory.

        Without a `buffer` all reports of a round count for it, in the order of position. With one of this size they
        count for version + staleness in the order of their ends, and a version whose buffer did not fill has no step.
        Raises a `LearningError` for a client that the problem has not, a round that is not in `rounds`, or a staleness
        below 0.
        """
        if not _in_order(participations):
            participations = participations.lazy().select(_columns(buffered=buffer is not None)).sort("round").collect()
        reading = Reading(rounds, clients, buffer)
        for part in slices(participations, *_columns(buffered=buffer is not None)):
            reading.add(part)
        return reading.cohorts(participations)

    def __len__(self) -> int:
        return len(self.rounds)

    def in_turn(self) -> Iterator[Reports]:
        """Yield the reports that count for each row, row after row."""
        empty = np.empty(0, dtype=np.int64)
        chunk = Reports(empty) if self.needed is None else Reports(empty, empty.astype(np.intp), empty)
        chunks, first = self._chunks(), 0
        for count in self.counts.tolist():
            if count and first == len(chunk.clients):
                chunk, first = next(chunks), 0
            own = slice(first, first + count)
            first += count
            if chunk.begun is None or chunk.repeats is None:
                yield Reports(chunk.clients[own])
            else:
                yield Reports(chunk.clients[own], chunk.begun[own], chunk.repeats[own])

    def _chunks(self) -> Iterator[Reports]:
        """Yield the reports of some rows at a time, in order; a row's reports are never split.

        A report counts for the round that it began with or a later one, so a row is complete once all participations of
        the rounds up to it are read. Reports of later rows are held.
        """
        begun, step = pl.col("step" if self.needed is None else "begun"), pl.col("step")
        unread = waiting = None
        for part, read in self._parts():
            # A client's earlier reports of the same round are known once the whole round is there.
            found = part if unread is None else pl.concat([unread, part])
            unread, whole = found.filter(begun >= read), _numbered(found.filter(begun < read))
            waiting = whole if waiting is None else pl.concat([waiting, whole])
            settled, waiting = _as_reports(waiting.filter(step < read)), waiting.filter(step >= read)
            del part, found, whole
            if len(settled.clients):
                yield settled
        if unread is not None and waiting is not None:
            yield _as_reports(pl.concat([waiting, _numbered(unread)]))

    def _parts(self) -> Iterator[tuple[pl.DataFrame, int]]:
        """Yield the reports that count, a slice of the log at a time, and the row before which all rounds are read.

        Columns: ``client``, ``position`` and ``step``, the row for which a report counts; for a buffered server also
        ``begun``, the row of the version, and ``ended_s``.
        """
        for part in slices(self._participations, *_columns(buffered=self.needed is not None)):
            read = int(np.searchsorted(self.rounds, part["round"][-1]))
            reported = _reported(part)
            if self.needed is None:
                yield reported.select("client", "position", step=pl.Series(_rows(reported["round"], self.rounds))), read
            else:
                step, known = _steps(reported, self.rounds)
                known[known] = self.counts[step[known]] > 0
                counted = reported.filter(pl.Series(known))
                rows = {"step": pl.Series(step[known]), "begun": pl.Series(_rows(counted["round"], self.rounds))}
                yield counted.select("client", "position", "ended_s", **rows), read

    def staleness(self, row: int, reports: Reports) -> Ints:
        """Return how many versions ago each report of a row began."""
        if reports.begun is None:
            return np.zeros(len(reports.clients), dtype=np.int64)
        ages: Ints = self.rounds[row] - self.rounds[reports.begun]
        return ages

    def step_sizes(self, row: int, reports: Reports, step_size: Callable[[int], float]) -> Floats:
        """Return the step size of each report of a row by a schedule: that of the version that was downloaded."""
        if reports.begun is None:
            alpha = np.empty(len(reports.clients))
            alpha.fill(step_size(row))
            return alpha
        versions, which = np.unique(reports.begun, return_inverse=True)
        by_version: Floats = np.array([step_size(version) for version in versions.tolist()])
        return by_version[which]

    def wanted(self, version: int, row: int) -> bool:
        """Say whether work that began with the version of one row is taken in another row or later."""
        return self.needed is not None and bool(self.needed[version] >= row)

    @property
    def past_versions(self) -> int:
        """How many versions other than the server's own have to be kept at a time at most."""
        if self.needed is None:
            return 0
        rows = np.arange(len(self))
        late = self.needed > rows
        change = np.zeros(len(rows) + 1, dtype=np.int64)
        np.add.at(change, rows[late] + 1, 1)
        np.add.at(change, self.needed[late] + 1, -1)
        return int(np.cumsum(change).max(initial=0))


class Reading:
    """Makes `Cohorts` of participations in their order, part by part; arguments and errors as in `Cohorts.read`."""

    def __init__(self, rounds: pl.DataFrame, clients: int, buffer: int | None) -> None:
        ordered = rounds.select("round", "closed_s").sort("round")
        self._numbers = ordered["round"].to_numpy().astype(np.int64)
        self._closed_s = ordered["closed_s"].to_numpy().astype(np.float64)
        self._buffer, self._unknown_steps = buffer, Counter[int]()
        self._counts, self._seen = np.zeros(len(self._numbers), dtype=np.int64), np.zeros(clients, dtype=np.bool_)
        self._needed = None if buffer is None else np.full(len(self._numbers), -1, dtype=np.intp)
        self._waiting: list[pl.DataFrame] = []

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        reported = _reported(part)
        if self._buffer is None:
            np.add.at(self._counts, _rows(reported["round"], self._numbers), 1)
            self._see(reported["client"])
            return
        if len(early := reported.filter(pl.col("staleness") < 0)):
            raise LearningError(
                f"round {early['round'][0]} has a report of staleness {early['staleness'][0]}; expected at least 0"
            )
        step, known = _steps(reported, self._numbers)
        np.add.at(self._counts, step[known], 1)
        unknown = reported.filter(pl.Series(~known)).select(pl.col("round", "staleness").cast(pl.Int64))
        self._unknown_steps.update((unknown["round"] + unknown["staleness"]).drop_nulls().to_list())
        found = reported.select("client", "round", step=pl.Series(step)).filter(pl.Series(known))
        self._waiting.append(found)
        # Whether a step is made is known once all participations of earlier rounds are read.
        self._settle(int(np.searchsorted(self._numbers, part["round"][-1])))

    def _settle(self, until: int) -> None:
        waiting = pl.concat(self._waiting)
        self._waiting = [waiting.filter(pl.col("step") >= until)]
        settled = waiting.filter(pl.col("step") < until)
        counted = settled.filter(pl.Series(self._counts[settled["step"].to_numpy()] == self._buffer))
        self._see(counted["client"])
        if self._needed is not None:
            np.maximum.at(self._needed, _rows(counted["round"], self._numbers), counted["step"].to_numpy())

    def _see(self, clients: pl.Series) -> None:
        client = clients.to_numpy().astype(np.int64)
        if len(unknown := client[(client < 0) | (client >= len(self._seen))]):
            message = f"client {unknown[0]} of the log is not in the problem, which has {len(self._seen)} clients"
            raise LearningError(message)
        self._seen[client] = True

    def cohorts(self, participations: pl.DataFrame | pl.LazyFrame) -> Cohorts:
        """Return whose reports count, after all participations of this table were added."""
        counts = self._counts
        if self._buffer is not None:
            if absent := [step for step, count in self._unknown_steps.items() if count == self._buffer]:
                raise _absent(min(absent))
            if self._waiting:
                self._settle(len(self._numbers))
            counts = np.where(counts == self._buffer, counts, 0)
        participants = int(np.count_nonzero(self._seen))
        return Cohorts(self._numbers, self._closed_s, counts, participants, self._needed, participations)


def _columns(*, buffered: bool) -> tuple[str, ...]:
    return ("round", "client", "position", "outcome", *(("ended_s", "staleness") if buffered else ()))


def _reported(participations: pl.DataFrame) -> pl.DataFrame:
    return participations.filter(pl.col("outcome").cast(pl.String) == "reported")


def _in_order(participations: pl.DataFrame | pl.LazyFrame) -> bool:
    """Say whether the rounds of participations never decrease."""
    last = -np.inf
    for part in slices(participations, "round"):
        numbers = part["round"].to_numpy()
        if numbers[0] < last or (np.diff(numbers) < 0).any():
            return False
        last = numbers[-1]
    return True


def _steps(reported: pl.DataFrame, numbers: Ints) -> tuple[NDArray[np.intp], Bools]:
    """Return the row for which each report of a buffered server counts, and whether it exists."""
    return _found((reported["round"].cast(pl.Int64) + reported["staleness"]).fill_null(_NEVER), numbers)


def _found(wanted: pl.Series, numbers: Ints) -> tuple[NDArray[np.intp], Bools]:
    values = wanted.to_numpy().astype(np.int64)
    rows = np.searchsorted(numbers, values)
    known: Bools = np.append(numbers, np.iinfo(np.int64).max)[rows] == values
    return rows, known


def _rows(rounds: pl.Series, numbers: Ints) -> NDArray[np.intp]:
    """Return the rows of rounds, all of which must exist."""
    rows, known = _found(rounds, numbers)
    if not known.all():
        raise _absent(int(rounds.filter(pl.Series(~known)).min()))  # type: ignore
    return rows


def _absent(number: int) -> LearningError:
    return LearningError(f"round {number} has participations, and no row in the table of rounds")


def _numbered(whole: pl.DataFrame) -> pl.DataFrame:
    """Number a client's reports that began with the same version, for a buffered server."""
    if "begun" not in whole.columns:
        return whole
    return whole.with_columns(repeats=pl.col("position").rank("ordinal").over("begun", "client").cast(pl.Int64) - 1)


def _as_reports(settled: pl.DataFrame) -> Reports:
    """Return reports in the order in which they count."""
    if "begun" not in settled.columns:
        return Reports(settled.sort("step", "position")["client"].to_numpy().astype(np.int64))
    ordered = settled.sort("step", "ended_s", "begun", "position")
    begun = ordered["begun"].to_numpy().astype(np.intp)
    return Reports(ordered["client"].to_numpy().astype(np.int64), begun, ordered["repeats"].to_numpy())


def frequencies(participations: pl.DataFrame | pl.LazyFrame, clients: int) -> Floats:
    """Return each client's share of the reported participations, shape (N,); zeros if there are none."""
    counts = np.zeros(clients, dtype=np.int64)
    for part in slices(participations, "outcome", "client"):
        counts += np.bincount(_reported(part)["client"].to_numpy().astype(np.int64), minlength=clients)
    shares: Floats = counts / max(1, counts.sum())
    return shares
