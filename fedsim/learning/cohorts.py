"""What the participation log means to training: whose work each server step takes, and from which model it began."""

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
    """The reports that count for one row, in their order.

    Attributes
    ----------
    clients
        (B,) whose report it is.
    begun
        (B,) the row of the version that was downloaded; None for rounds: their own.
    repeats
        (B,) how many reports that began with the same version its client had made before; None for rounds: none.
    """

    clients: Ints
    begun: NDArray[np.intp] | None = None
    repeats: Ints | None = None


@dataclass(frozen=True)
class Cohorts:
    """Whose reports count for each row of the log, which is read a piece at a time: a few numbers of each row are kept.

    Attributes
    ----------
    rounds, closed_s
        (T,) number of each round or version, and when it closed.
    counts
        (T,) how many reports count for it.
    participants
        How many different clients have a report that counts.
    needed
        (T,) the last row with a report that began with the version of this one, -1 where there is none; None for
        synchronous rounds.
    """

    rounds: Ints
    closed_s: Floats
    counts: Ints
    participants: int
    needed: NDArray[np.intp] | None
    _source: "_Source"

    @staticmethod
    def read(
        rounds: pl.DataFrame,
        participations: pl.DataFrame | pl.LazyFrame,
        clients: int,
        buffer: int | None = None,
    ) -> "Cohorts":
        """Take what training needs from the log's tables.

        Parameters
        ----------
        rounds, participations
            The log. Participations that are not in the order of rounds are sorted, which is done in memory.
        clients
            N.
        buffer
            Reports of each step of a buffered server, whose reports count for version + staleness in the order of their
            ends; where so many have not come together, in the last version, there is no step. None for synchronous
            rounds, where all reports of a round count for it, in the order of position.

        Raises
        ------
        LearningError
            When the log has a client that the problem has not, participations of a round that it has not, or a
            staleness below 0.
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
        nobody, buffered = np.empty(0, dtype=np.int64), self.needed is not None
        chunk = Reports(nobody, nobody.astype(np.intp), nobody) if buffered else Reports(nobody)
        chunks, first = self._source.chunks(), 0
        for count in self.counts.tolist():
            if count and first == len(chunk.clients):
                chunk, first = next(chunks), 0
            own = slice(first, first + count)
            first += count
            if chunk.begun is None or chunk.repeats is None:
                yield Reports(chunk.clients[own])
            else:
                yield Reports(chunk.clients[own], chunk.begun[own], chunk.repeats[own])

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
        """Say whether work that began with the version of one row is taken in another row or after it."""
        return self.needed is not None and bool(self.needed[version] >= row)

    @property
    def past_versions(self) -> int:
        """How many versions, beside the server's own, have to be kept at a time at most."""
        if self.needed is None:
            return 0
        rows = np.arange(len(self))
        late = self.needed > rows
        change = np.zeros(len(rows) + 1, dtype=np.int64)
        np.add.at(change, rows[late] + 1, 1)
        np.add.at(change, self.needed[late] + 1, -1)
        return int(np.cumsum(change).max(initial=0))


class Reading:
    """What training has to know of a log before it begins, found part by part of the participations in their order.

    Parameters
    ----------
    rounds, clients, buffer
        As in `Cohorts.read`, and so are the errors.
    """

    def __init__(self, rounds: pl.DataFrame, clients: int, buffer: int | None) -> None:
        ordered = rounds.select("round", "closed_s").sort("round")
        self._numbers = ordered["round"].to_numpy().astype(np.int64)
        self._closed_s = ordered["closed_s"].to_numpy().astype(np.float64)
        self._buffer, self._strangers = buffer, Counter[int]()
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
        self._strangers.update((unknown["round"] + unknown["staleness"]).drop_nulls().to_list())
        found = reported.select("client", "round", step=pl.Series(step)).filter(pl.Series(known))
        self._waiting.append(found)
        # Whether a step is made is known when all participations of the rounds before it are read.
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
        if len(strangers := client[(client < 0) | (client >= len(self._seen))]):
            message = f"client {strangers[0]} of the log is not in the problem, which has {len(self._seen)} clients"
            raise LearningError(message)
        self._seen[client] = True

    def cohorts(self, participations: pl.DataFrame | pl.LazyFrame) -> Cohorts:
        """Return whose reports count, after all participations of this table were taken."""
        counts, full = self._counts, None
        if self._buffer is not None:
            if absent := [step for step, count in self._strangers.items() if count == self._buffer]:
                raise _absent(min(absent))
            if self._waiting:
                self._settle(len(self._numbers))
            full = counts == self._buffer
            counts = np.where(full, counts, 0)
        source = _Source(participations, self._numbers, full)
        participants = int(np.count_nonzero(self._seen))
        return Cohorts(self._numbers, self._closed_s, counts, participants, self._needed, source)


@dataclass(frozen=True)
class _Source:
    """The participations of a log, and which of them count.

    Attributes
    ----------
    participations
        In the order of rounds.
    numbers
        (T,) of the rounds, in order.
    full
        (T,) which versions of a buffered server have their step; None for synchronous rounds.
    """

    participations: pl.DataFrame | pl.LazyFrame
    numbers: Ints
    full: Bools | None

    def parts(self) -> Iterator[tuple[pl.DataFrame, int]]:
        """Yield the reports that count as they stand in the log, a slice of it at a time.

        Yields
        ------
        Columns ``client``, ``position`` and ``step``, the row for which a report counts, for a buffered server also
        ``begun``, the row of the version, and ``ended_s``; and the row before which all rounds have been read.
        """
        for part in slices(self.participations, *_columns(buffered=self.full is not None)):
            read = int(np.searchsorted(self.numbers, part["round"][-1]))
            reported = _reported(part)
            if self.full is None:
                step = _rows(reported["round"], self.numbers)
                yield reported.select("client", "position", step=pl.Series(step)), read
            else:
                step, known = _steps(reported, self.numbers)
                known[known] = self.full[step[known]]
                counted, own = reported.filter(pl.Series(known)), step[known]
                begun = _rows(counted["round"], self.numbers)
                yield (
                    counted.select("client", "position", "ended_s", step=pl.Series(own), begun=pl.Series(begun)),
                    read,
                )

    def chunks(self) -> Iterator[Reports]:
        """Yield the reports of some rows at a time, row after row, each with all of its own.

        A report counts for the round that it began with or for a later one: once all participations of the rounds
        before a row are read, there is no more to come for those. Held are the reports of later rows.
        """
        begun, step = pl.col("step" if self.full is None else "begun"), pl.col("step")
        unread = waiting = None
        for part, read in self.parts():
            # What its client did before in the same round can be told when all of the round is there.
            found = part if unread is None else pl.concat([unread, part])
            unread, whole = found.filter(begun >= read), _numbered(found.filter(begun < read))
            waiting = whole if waiting is None else pl.concat([waiting, whole])
            settled, waiting = _as_reports(waiting.filter(step < read)), waiting.filter(step >= read)
            del part, found, whole
            if len(settled.clients):
                yield settled
        if unread is not None and waiting is not None:
            yield _as_reports(pl.concat([waiting, _numbered(unread)]))


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
    """Return the row for which each report of a buffered server counts, and whether there is one."""
    return _found((reported["round"].cast(pl.Int64) + reported["staleness"]).fill_null(_NEVER), numbers)


def _found(wanted: pl.Series, numbers: Ints) -> tuple[NDArray[np.intp], Bools]:
    values = wanted.to_numpy().astype(np.int64)
    rows = np.searchsorted(numbers, values)
    known: Bools = np.append(numbers, np.iinfo(np.int64).max)[rows] == values
    return rows, known


def _rows(rounds: pl.Series, numbers: Ints) -> NDArray[np.intp]:
    """Return the rows of rounds, all of which there have to be."""
    rows, known = _found(rounds, numbers)
    if not known.all():
        raise _absent(int(rounds.filter(pl.Series(~known)).min()))  # type: ignore
    return rows


def _absent(number: int) -> LearningError:
    return LearningError(f"round {number} has participations, and no row in the table of rounds")


def _numbered(whole: pl.DataFrame) -> pl.DataFrame:
    """Number the reports of a client that began with the same version, for a buffered server."""
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
    """Return each client's share of the reported participations, shape (N,); zeros where nobody reported."""
    counts = np.zeros(clients, dtype=np.int64)
    for part in slices(participations, "outcome", "client"):
        reported = part.filter(pl.col("outcome").cast(pl.String) == "reported")["client"].to_numpy()
        counts += np.bincount(reported.astype(np.int64), minlength=clients)
    shares: Floats = counts / max(1, counts.sum())
    return shares
