"""Collects the log while the simulation runs, and passes on what is settled to a sink, some rounds at a time.

The sinks here keep it in memory or temporary files; `fedsim.log.journal.Journal` is that of a run that can be resumed.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import RunError
from fedsim.common.files import ROWS, write_table
from fedsim.common.instants import each_to_seconds
from fedsim.common.outcomes import CODES, COUNTED_OUTCOMES, SESSION_OUTCOMES
from fedsim.log import BUFFERED, GAUGE_COUNTS, GAUGES, NOTED, PARTICIPATIONS, ROUNDS, SPENT, with_staleness
from fedsim.log.columns import Arrays, Columns, part_of, with_prefix
from fedsim.population.sessions import PHASES
from fedsim.scenario.stop import Counts

RUNNING = 0
"""Code of a session that has not ended; the others are `CODES`."""
_NAMES = pl.Series([None, *SESSION_OUTCOMES], dtype=PARTICIPATIONS["outcome"])
_TALLIED = {CODES[outcome]: outcome for outcome in COUNTED_OUTCOMES}
_NOBODY = dict.fromkeys(("selected", *COUNTED_OUTCOMES), 0)
_SETTLE = ROWS  # participations that are passed on together; or a quarter as many rounds, where there are fewer
_OF_PARTICIPATIONS = ("round", "client", "position", "ended_s", "outcome", "staleness", "steps")


class LogSink(Protocol):
    """Takes completed rows of a log, some at a time."""

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the three tables."""
        ...


class InMemoryLog:
    """Keeps all rows in memory, in the order of round and position, and when the simulation ended (s)."""

    def __init__(self, *parts: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame], ended_s: float = 0.0) -> None:
        self._parts, self.ended_s = list(parts), ended_s

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the three tables."""
        self._parts.append((rounds, participations, gauges))

    @property
    def rounds(self) -> pl.DataFrame:
        """The rounds; at least one part must have been added, as for the other tables."""
        return self._whole[0]

    @property
    def participations(self) -> pl.DataFrame:
        """The participations."""
        return self._whole[1]

    @property
    def gauges(self) -> pl.DataFrame:
        """The population counted at a steady cadence."""
        return self._whole[2]

    @property
    def _whole(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        if len(self._parts) > 1:
            rounds, participations, gauges = map(pl.concat, zip(*self._parts, strict=True))
            self._parts = [(rounds, participations, gauges)]
        return self._parts[0]


class TemporaryParticipations:
    """Keeps what training reads of participations; those beyond `most` go to temporary files, so many into each.

    The files are in the system's folder for such files (``TMPDIR`` names another), and are removed on leaving the
    block.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = [pl.DataFrame(schema=BUFFERED).select(_OF_PARTICIPATIONS[:-1])]
        self._files: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, participations: pl.DataFrame) -> None:
        """Take the next rows; a `RunError` if a file cannot be written."""
        columns = [name for name in _OF_PARTICIPATIONS if name in participations.columns or name == "staleness"]
        self._waiting.append(with_staleness(participations).select(columns))
        if sum(map(len, self._waiting)) > self._most:
            waiting = pl.concat(self._waiting, how="diagonal")
            whole = len(waiting) // self._most * self._most
            for first in range(0, whole, self._most):
                self._write(waiting.slice(first, self._most))
            self._waiting = [waiting.slice(whole)]

    def participations(self) -> pl.DataFrame | pl.LazyFrame:
        """Return all rows, which can be read until the block is left."""
        waiting = pl.concat(self._waiting, how="diagonal")
        if not self._files:
            return waiting
        if len(waiting):
            self._write(waiting)
            self._waiting = [waiting.clear()]
        return pl.scan_parquet(self._files, glob=False)

    def _write(self, part: pl.DataFrame) -> None:
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="fedsim-", ignore_cleanup_errors=True)
        except OSError as error:
            raise RunError(f"no folder for temporary files can be made: {error}") from None
        path = Path(self._folder.name) / f"participations-{len(self._files):06}.parquet"
        write_table(path, part, passing=True)
        self._files.append(path)


class Recorder:
    """Writes rows of the log as the simulation runs; times are milliseconds here, and seconds in the tables.

    A participation gets its row when it is selected and its end when the session ends, so rows stand in the order of
    round and position whatever the order of the ends. A buffered server's versions are rounds that select repeatedly
    and whose sessions may end in a later one.

    The gauges count apart the pairs `counted` of a group and a time zone. The sink takes the rows whose rounds are
    closed and whose sessions have ended; participations in whole row groups, until `settle` passes on the rest.
    `staleness` is that of every session, which the log leaves out; None with a buffered server, whose reports have
    their own. `noted` are further columns of participations, of `NOTED`; -1 is a null in them. Where `spent` gives
    those of `SPENT`, from the columns of whole rounds, the lengths (s) of `PHASES` are noted too, for it alone.
    """

    def __init__(
        self,
        clients: int,
        counted: Sequence[tuple[str, str]],
        sink: LogSink,
        staleness: int | None = 0,
        noted: Sequence[str] = (),
        spent: Callable[[Arrays], Arrays] | None = None,
    ) -> None:
        self._sink = sink
        self._counted = counted
        self._last_round = np.full(clients, -1, dtype=np.int32)
        defaults = {"selected_at": -1, "closed_at": -1, "outcome": "", "eligible": -1, **_NOBODY}
        whole = dict.fromkeys(("opened_at", "selected_at", "closed_at", "eligible", *_NOBODY), "i8")
        self._rounds = Columns(defaults, outcome="U9", **whole)
        self._buffered = staleness is None
        self.noted, self._spent = noted, spent
        defaults = {"ended_at": -1, "outcome": RUNNING, "staleness": -1, **dict.fromkeys(noted, -1)}
        numbers = dict.fromkeys(("round", "client", "position", "gap", *("staleness",) * self._buffered), "i4")
        numbers |= dict.fromkeys(noted, "i8") | dict.fromkeys(() if spent is None else PHASES, "f8")
        self._rows = Columns(defaults, selected_at="i8", ended_at="i8", outcome="i1", **numbers)
        self._gauges: list[tuple[int, Ints]] = []
        self._running: dict[int, int] = {}  # sessions that have not ended, by round
        self.closing: Callable[[int, int, str, Ints], None] | None = None
        """Called with the number of a round, its instant, its outcome and rows, at its close: the rows are those of its
        selection, of a buffered server those of the sessions that have ended since the close before."""
        self._ended: list[int] = []
        self.closed = self.reported = 0  # rounds that have closed, and the reports in them
        self.last_end = 0
        """The latest end of a session."""
        self.ticks = 0
        """How often the population has been counted."""

    @property
    def open(self) -> bool:
        """Whether a round is open."""
        return self._rounds.end > self.closed

    @property
    def counts(self) -> Counts:
        """What has happened so far."""
        return Counts(self.closed, self._rows.end, self.reported)

    def last_round(self, clients: Ints) -> Ints:
        """Return the round in which each of the clients was last selected, -1 for never."""
        return self._last_round[clients].astype(np.int64)

    def open_round(self, instant: int) -> None:
        """Begin the next round's row."""
        self._rounds.add(1, opened_at=instant)

    def select(self, number: int, clients: Ints, instant: int, eligible: int | None = None) -> int:
        """Begin the rows of a selection in the open round and return the index of the first."""
        count = len(clients)
        last = self._last_round[clients]
        self._last_round[clients] = number
        if self._rounds.of(number, "selected_at") < 0:
            self._rounds.put(number, "selected_at", instant)
            self._rounds.put(number, "eligible", -1 if eligible is None else eligible)
        already = int(self._rounds.of(number, "selected"))
        self._rounds.count(number, "selected", count)
        if count:
            self._running[number] = self._running.get(number, 0) + count
        return self._rows.add(
            count,
            round=number,
            client=clients,
            position=np.arange(already, already + count),
            selected_at=instant,
            gap=np.where(last >= 0, number - last, -1),
        )

    def note(self, row: int, **columns: Ints | Floats) -> None:
        """Note columns (n,) of sessions that have begun, the first in this row."""
        for name, values in columns.items():
            self._rows.put(range(row, row + len(values)), name, values)

    def end(self, number: int, rows: range | Ints, instants: Ints, outcomes: NDArray[np.int8]) -> None:
        """Complete rows of one round: when their sessions ended, and the codes of how."""
        self._rows.put(rows, "ended_at", instants)
        self._rows.put(rows, "outcome", outcomes)
        self.last_end = max(self.last_end, int(instants.max(initial=0)))
        self._count_ended(number, len(rows))
        for code, count in enumerate(np.bincount(outcomes).tolist()):
            if count and code in _TALLIED:
                self._rounds.count(number, _TALLIED[code], count)

    def end_one(self, number: int, row: int, instant: int, outcome: int, staleness: int | None = None) -> None:
        """Complete the row of a session that ended in a round, or while the server was at a later version."""
        self.last_end = max(self.last_end, instant)
        self._rows.put(row, "ended_at", instant)
        self._rows.put(row, "outcome", outcome)
        if staleness is not None:
            self._rows.put(row, "staleness", staleness)
        self._ended.append(row)
        self._count_ended(int(self._rows.of(row, "round")), 1)
        if outcome in _TALLIED:
            self._rounds.count(number, _TALLIED[outcome], 1)

    def discard_fewer(self, least: int) -> bool:
        """Discard the reports of the open round if they are fewer than `least`, and say whether they are."""
        if self._rounds.of(self.closed, "reported") >= least:
            return False
        reported = self._reported()
        self._rows.put(reported, "outcome", CODES["failed"])
        self._rounds.count(self.closed, "reported", -len(reported))
        return True

    def sessions(self, rows: Ints, *names: str) -> list[NDArray[Any]]:
        """Return columns of sessions that have not been passed on, (n,) each; instants are in milliseconds."""
        return [self._rows.of(rows, name) for name in names]

    def opened_at(self, number: int) -> int:
        """Return when a round opened that has not been passed on, in milliseconds."""
        return int(self._rounds.of(number, "opened_at"))

    @property
    def oldest(self) -> int:
        """The first round of which a session still runs; the next one to close, if none does."""
        return min(self._running, default=self.closed)

    def reporters(self) -> Ints:
        """Return the clients that have reported in the open round, in the order of their positions."""
        clients: Ints = self._rows.of(self._reported(), "client")
        return clients.astype(np.int64)

    def _reported(self) -> Ints:
        reported = (self._rows.get("round") == self.closed) & (self._rows.get("outcome") == CODES["reported"])
        return self._rows.first + np.flatnonzero(reported)

    def _count_ended(self, number: int, count: int) -> None:
        self._running[number] -= count
        if not self._running[number]:
            del self._running[number]

    def close_round(self, instant: int, outcome: str) -> None:
        """Complete the open round's row."""
        self._rounds.put(self.closed, "closed_at", instant)
        self._rounds.put(self.closed, "outcome", outcome)
        if self.closing is not None:
            first = self._rows.end - int(self._rounds.of(self.closed, "selected"))
            rows = np.array(self._ended, dtype=np.int64) if self._buffered else np.arange(first, self._rows.end)
            self.closing(self.closed, instant, outcome, rows)
        self._ended.clear()
        self.reported += int(self._rounds.of(self.closed, "reported"))
        self.closed += 1
        if self._rows.waiting >= _SETTLE or self._rounds.waiting >= _SETTLE // 4:
            self.settle(everything=False)

    def gauge(self, instant: int, counts: Ints) -> None:
        """Note counts of clients: a row for each of `GAUGE_COUNTS`, and a column for each of `counted`."""
        self._gauges.append((instant, counts))
        self.ticks += 1

    def state(self) -> Arrays:
        """Return all that is needed to go on, while no round is open."""
        return {
            "last_round": self._last_round,
            "running": np.array(list(self._running.items()), dtype=np.int64).reshape(-1, 2),
            "closed": np.array(self.closed),
            "reported": np.array(self.reported),
            "ticks": np.array(self.ticks),
            "gauges.instant": np.array([instant for instant, _ in self._gauges], dtype=np.int64),
            "gauges.counts": np.array([counts for _, counts in self._gauges], dtype=np.int64),
            **with_prefix("rounds", self._rounds.state()),
            **with_prefix("rows", self._rows.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from what `state` returned."""
        self._last_round = state["last_round"]
        self._running = {int(number): int(count) for number, count in state["running"]}
        self.closed, self.reported, self.ticks = (int(state[name]) for name in ("closed", "reported", "ticks"))
        self._gauges = list(zip(state["gauges.instant"].tolist(), state["gauges.counts"], strict=True))
        self._rounds.restore(part_of("rounds", state))
        self._rows.restore(part_of("rows", state))

    def settle(self, *, everything: bool = True) -> None:
        """Pass on the rounds that are closed and have no session running, up to the first that is not so.

        Where not everything is wanted: only once there are enough of them, whole row groups and all rounds.
        """
        until = self.oldest
        number = self._rows.get("round")
        rows = int(np.searchsorted(number, number.dtype.type(until)))
        if not everything:
            rows -= rows % _SETTLE
            if not rows and until - self._rounds.first < _SETTLE // 4:
                return
        self._spend(until)
        rounds = self._rounds.take(until)
        participations = _participations_table(self._rows.take(self._rows.first + rows))
        self._sink.add(_rounds_table(rounds, until), participations, self._gauges_table())
        self._gauges.clear()

    def _spend(self, until: int) -> None:
        """Work out what the sessions of the rounds before `until` took, each round once: a part may end within one."""
        if self._spent is not None:
            names = ("round", "client", "selected_at", "ended_at", "outcome", *PHASES)
            rows = np.flatnonzero((self._rows.get("round") < until) & (self._rows.get(SPENT[0]) < 0)) + self._rows.first
            for name, values in self._spent({name: self._rows.of(rows, name) for name in names}).items():
                self._rows.put(rows, name, values)

    def _gauges_table(self) -> pl.DataFrame:
        groups = len(self._counted)
        counts = np.asarray([counts for _, counts in self._gauges], dtype=np.int64)
        counts = counts.reshape(-1, len(GAUGE_COUNTS), groups)
        columns = {
            "time_s": each_to_seconds(np.repeat([instant for instant, _ in self._gauges], groups)),
            "group": [name for name, _ in self._counted] * len(self._gauges),
            "time_zone": [zone for _, zone in self._counted] * len(self._gauges),
            **{name: counts[:, place].ravel() for place, name in enumerate(GAUGE_COUNTS)},
        }
        return pl.DataFrame(columns, schema=GAUGES)


def _rounds_table(rounds: Arrays, until: int) -> pl.DataFrame:
    columns = {
        "round": np.arange(until - len(rounds["opened_at"]), until),
        "opened_s": each_to_seconds(rounds["opened_at"]),
        "selected_s": _some(each_to_seconds(rounds["selected_at"]), rounds["selected_at"] >= 0),
        "closed_s": each_to_seconds(rounds["closed_at"]),
        "selected": rounds["selected"],
        **{name: rounds[name] for name in COUNTED_OUTCOMES},
        "outcome": rounds["outcome"].tolist(),
        "eligible": _some(rounds["eligible"], rounds["eligible"] >= 0),
    }
    return pl.DataFrame(columns, schema=ROUNDS)


def _participations_table(rows: Arrays) -> pl.DataFrame:
    columns: dict[str, Any] = {name: rows[name] for name in ("round", "client", "position")}
    columns |= {f"{name}_s": each_to_seconds(rows[f"{name}_at"]) for name in ("selected", "ended")}
    columns |= {"outcome": _NAMES.gather(rows["outcome"]), "gap": _some(rows["gap"], rows["gap"] >= 0)}
    schema = BUFFERED if "staleness" in rows else PARTICIPATIONS
    if "staleness" in rows:  # everyone downloads the newest model
        columns |= {"version": rows["round"], "staleness": _some(rows["staleness"], rows["staleness"] >= 0)}
    noted = {name: dtype for name, dtype in NOTED.items() if name in rows}
    columns |= {name: _some(rows[name], rows[name] >= 0) for name in noted}
    return pl.DataFrame(columns, schema=pl.Schema({**schema, **noted}))


def _some(values: Ints | Floats, valid: Bools) -> pl.Series:
    column = pl.Series(values)
    return column if valid.all() else column.set(pl.Series(~valid), None)
