"""Whose work each server step of a participation log takes, and from which model that work began."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.files import slices
from fedsim.learning.failures import LearningError

_NEVER = np.iinfo(np.int64).min


class Reports(NamedTuple):
    """The clients whose reports count for one row, in their order, shape (B,).

    For a buffered server also the rows of the versions that they downloaded, and how many earlier reports of the same
    client began with the same version; and how many local steps each has, where the log says so.
    """

    clients: Ints
    begun: NDArray[np.intp] | None = None
    repeats: Ints | None = None
    steps: Ints | None = None


@dataclass(frozen=True)
class Cohorts:
    """Whose reports count for each row of the log. The log is read in parts; a few numbers are kept of each row."""

    # rounds, closed_s: (T,) number of each round or version, and when it closed
    rounds: Ints
    closed_s: Floats
    counts: Ints  # (T,) how many reports count for it
    participants: int  # how many different clients have a report that counts
    needed: NDArray[np.intp]  # (T,) the last row with a report that began with the version of this one, -1 for none
    _participations: pl.DataFrame | pl.LazyFrame
    _buffered: bool
    _steps: bool  # whether it says how many local steps each report has
    _whole: "Cohorts | None" = None  # of which these are the first rows

    @staticmethod
    def read(
        rounds: pl.DataFrame, participations: pl.DataFrame | pl.LazyFrame, clients: int, buffer: int | None = None
    ) -> "Cohorts":
        """Return what training needs of a log with N clients; rounds out of order are sorted in memory.

        Without a `buffer` all reports of a round count for it, in the order of position. With one of this size they
        count for version + staleness in the order of their ends, and a version whose buffer did not fill has no step.
        Raises a `LearningError` for a client that the problem has not, a round that is not in `rounds`, or a staleness
        below 0.
        """
        columns = _columns(buffered=buffer is not None, steps=_have_steps(participations))
        if not _in_order(participations):
            participations = participations.lazy().select(columns).sort("round").collect()
        reading = Reading(rounds, clients, buffer)
        for part in slices(participations, *columns):
            reading.add(part)
        return reading.cohorts(participations)

    def __len__(self) -> int:
        return len(self.rounds)

    def first(self, rows: int) -> "Cohorts":
        """Return those of the first rows of the log; participants are still those of all."""
        return replace(
            self,
            rounds=self.rounds[:rows],
            closed_s=self.closed_s[:rows],
            counts=self.counts[:rows],
            needed=np.minimum(self.needed[:rows], rows - 1),
            _whole=self,
        )

    def in_turn(self) -> Iterator[Reports]:
        """Yield the reports that count for each row, row after row."""
        if self._whole is not None:
            yield from islice(self._whole.in_turn(), len(self))
            return
        nobody = np.empty(0, dtype=np.int64)
        more = nobody if self._buffered else None
        chunk = Reports(nobody, more, more, nobody if self._steps else None)
        chunks, first = self._chunks(), 0
        for count in self.counts.tolist():
            if count and first == len(chunk.clients):
                chunk, first = next(chunks), 0
            rows = slice(first, first := first + count)
            yield Reports(*(None if column is None else column[rows] for column in chunk))  # type: ignore

    def _chunks(self) -> Iterator[Reports]:
        """Yield the reports of some rows at a time, in order; a row's reports are never split.

        A report counts for the round that it began with or a later one, so a row is complete once all participations of
        the rounds up to it are read. Reports of later rows are held.
        """
        unread = waiting = None
        for part in slices(self._participations, *_columns(buffered=self._buffered, steps=self._steps)):
            read = int(np.searchsorted(self.rounds, part["round"][-1]))
            # A client's earlier reports of the same round are known once the whole round is there.
            counted = _joined(unread, self._counted(part))
            unread, whole = counted.filter(pl.col("begun") >= read), counted.filter(pl.col("begun") < read)
            waiting = _joined(waiting, self._numbered(whole))
            settled, waiting = waiting.filter(pl.col("step") < read), waiting.filter(pl.col("step") >= read)
            del part, counted, whole
            if len(settled):
                yield self._as_reports(settled)
        if unread is not None:
            yield self._as_reports(_joined(waiting, self._numbered(unread)))

    @property
    def _order(self) -> list[str]:
        """The columns by which the reports of a row are in order."""
        return ["step", "ended_s", "begun", "position"] if self._buffered else ["step", "begun", "position"]

    def _counted(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return the reports that count, with ``step``, the row for which they do, and ``begun``, their version's."""
        reported = _reported(part)
        step, exists = _rows(_versions(reported), self.rounds)
        exists[exists] = self.counts[step[exists]] > 0
        counted = reported.with_columns(step=pl.Series(step)).filter(pl.Series(exists))
        begun = pl.Series(_known_rows(counted["round"], self.rounds))
        return counted.with_columns(begun=begun).select("client", *self._order, *_STEPS[: self._steps])

    def _numbered(self, whole: pl.DataFrame) -> pl.DataFrame:
        """Number a client's reports that began with the same version, for a buffered server."""
        if not self._buffered:
            return whole
        return whole.with_columns(repeats=pl.col("position").rank("ordinal").over("begun", "client").cast(pl.Int64) - 1)

    def _as_reports(self, settled: pl.DataFrame) -> Reports:
        """Return reports in the order in which they count."""
        ordered = settled.sort(self._order)
        clients = ordered["client"].to_numpy().astype(np.int64)
        steps = ordered["steps"].to_numpy().astype(np.int64) if self._steps else None
        if not self._buffered:
            return Reports(clients, steps=steps)
        return Reports(clients, ordered["begun"].to_numpy().astype(np.intp), ordered["repeats"].to_numpy(), steps)

    def staleness(self, row: int, reports: Reports) -> Ints:
        """Return how many versions ago each report of a row began."""
        if reports.begun is None:
            return np.zeros(len(reports.clients), dtype=np.int64)
        return np.asarray(self.rounds[row] - self.rounds[reports.begun])

    def step_sizes(self, row: int, reports: Reports, step_size: Callable[[int], float]) -> Floats:
        """Return the step size of each report of a row by a schedule: that of the version that was downloaded."""
        if reports.begun is None:
            return np.full(len(reports.clients), step_size(row), dtype=np.float64)
        versions, which = np.unique(reports.begun, return_inverse=True)
        by_version: Floats = np.array([step_size(version) for version in versions.tolist()])
        return by_version[which]

    def wanted(self, version: int, row: int) -> bool:
        """Say whether work that began with the version of one row is taken in another row or later."""
        return bool(self.needed[version] >= row)

    @property
    def past_versions(self) -> int:
        """How many versions other than the server's own have to be kept at a time at most."""
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
        self._needed = np.full(len(self._numbers), -1, dtype=np.intp)
        self._waiting: pl.DataFrame | None = None

    def add(self, part: pl.DataFrame) -> None:
        """Take the next participations."""
        reported = _reported(part.select(_columns(buffered=self._buffer is not None)))
        if self._buffer is not None and len(early := reported.filter(pl.col("staleness") < 0)):
            raise LearningError(
                f"round {early['round'][0]} has a report of staleness {early['staleness'][0]}; expected at least 0"
            )
        versions = _versions(reported)
        step, exists = _rows(versions, self._numbers)
        np.add.at(self._counts, step[exists], 1)
        self._unknown_steps.update(versions.filter(pl.Series(~exists)).drop_nulls().to_list())
        placed = reported.select("client", "round", step=pl.Series(step)).filter(pl.Series(exists))
        self._waiting = _joined(self._waiting, placed)
        # Whether a step is made is known once all participations of earlier rounds are read.
        self._settle(self._waiting, int(np.searchsorted(self._numbers, part["round"][-1])))

    def _settle(self, waiting: pl.DataFrame, until: int) -> None:
        self._waiting = waiting.filter(pl.col("step") >= until)
        counted = waiting.filter(pl.col("step") < until)
        if self._buffer is not None:
            counted = counted.filter(pl.Series(self._counts[counted["step"].to_numpy()] == self._buffer))
        client = counted["client"].to_numpy().astype(np.int64)
        if len(unknown := client[(client < 0) | (client >= len(self._seen))]):
            message = f"client {unknown[0]} of the log is not in the problem, which has {len(self._seen)} clients"
            raise LearningError(message)
        self._seen[client] = True
        np.maximum.at(self._needed, _known_rows(counted["round"], self._numbers), counted["step"].to_numpy())

    def cohorts(self, participations: pl.DataFrame | pl.LazyFrame) -> Cohorts:
        """Return whose reports count, after all participations of this table were added."""
        counts, buffer = self._counts, self._buffer
        if absent := [step for step, count in self._unknown_steps.items() if buffer in {None, count}]:
            raise _absent(min(absent))
        if self._waiting is not None:
            self._settle(self._waiting, len(self._numbers))
        if buffer is not None:
            counts = np.where(counts == buffer, counts, 0)
        participants, buffered = int(np.count_nonzero(self._seen)), buffer is not None
        steps = _have_steps(participations)
        rounds = (self._numbers, self._closed_s, counts, participants, self._needed)
        return Cohorts(*rounds, participations, buffered, steps)


_STEPS = ("steps",)


def _have_steps(participations: pl.DataFrame | pl.LazyFrame) -> bool:
    return "steps" in participations.lazy().collect_schema()


def _columns(*, buffered: bool, steps: bool = False) -> tuple[str, ...]:
    more = ("ended_s", "staleness") if buffered else ()
    return ("round", "client", "position", "outcome", *more, *_STEPS[:steps])


def _reported(participations: pl.DataFrame) -> pl.DataFrame:
    return participations.filter(pl.col("outcome").cast(pl.String) == "reported")


def _joined(before: pl.DataFrame | None, more: pl.DataFrame) -> pl.DataFrame:
    return more if before is None else pl.concat([before, more])


def _in_order(participations: pl.DataFrame | pl.LazyFrame) -> bool:
    """Say whether the rounds of participations never decrease."""
    last = -np.inf
    for part in slices(participations, "round"):
        numbers = part["round"].to_numpy()
        if numbers[0] < last or (np.diff(numbers) < 0).any():
            return False
        last = numbers[-1]
    return True


def _versions(reported: pl.DataFrame) -> pl.Series:
    """Return the round or version for which each report counts; null where the log does not say."""
    began = reported["round"].cast(pl.Int64)
    return began + reported["staleness"].cast(pl.Int64) if "staleness" in reported.columns else began


def _rows(wanted: pl.Series, numbers: Ints) -> tuple[NDArray[np.intp], Bools]:
    """Return the rows of rounds, and whether they exist."""
    values = wanted.fill_null(_NEVER).to_numpy().astype(np.int64)
    rows = np.searchsorted(numbers, values)
    exists: Bools = np.append(numbers, np.iinfo(np.int64).max)[rows] == values
    return rows, exists


def _known_rows(rounds: pl.Series, numbers: Ints) -> NDArray[np.intp]:
    """Return the rows of rounds, all of which must exist."""
    rows, exists = _rows(rounds, numbers)
    if not exists.all():
        raise _absent(int(rounds.filter(pl.Series(~exists)).min()))  # type: ignore
    return rows


def _absent(number: int) -> LearningError:
    return LearningError(f"round {number} has participations, and no row in the table of rounds")


def frequencies(participations: pl.DataFrame | pl.LazyFrame, clients: int) -> Floats:
    """Return each client's share of the reported participations, shape (N,); zeros if there are none.

    Where cohorts vary in size, FedAvg follows `fedsim.measure.contributions.pulls` instead.
    """
    counts = np.zeros(clients, dtype=np.int64)
    for part in slices(participations, "outcome", "client"):
        counts += np.bincount(_reported(part)["client"].to_numpy().astype(np.int64), minlength=clients)
    return np.asarray(counts / max(1, counts.sum()))
