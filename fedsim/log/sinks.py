"""Where the completed rows of a log go: a protocol, and the sinks that keep them in memory or temporary files.

`fedsim.log.journal.Journal` is the sink of a run that can be resumed.
"""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import polars as pl

from fedsim.common.errors import RunError
from fedsim.common.files import write_table
from fedsim.log import BUFFERED, ROUNDS, Log, with_staleness

_OF_ROUNDS = ("round", "closed_s")
_OF_PARTICIPATIONS = ("round", "client", "position", "ended_s", "outcome", "staleness")


class LogSink(Protocol):
    """Takes completed rows of a log, some at a time."""

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the three tables."""
        ...


class InMemoryLog:
    """Keeps all rows in memory."""

    def __init__(self) -> None:
        self._parts: list[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]] = []

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the three tables."""
        self._parts.append((rounds, participations, gauges))

    def log(self, ended_s: float) -> Log:
        """Return all rows; at least one part must have been added."""
        rounds, participations, gauges = map(pl.concat, zip(*self._parts, strict=True))
        return Log(rounds, participations, gauges, ended_s)


class TemporaryLog:
    """Keeps what training reads of a log; participations beyond `most` go to temporary files, so many into each.

    The files are in the system's folder for such files (``TMPDIR`` names another), and are removed on leaving the
    block. Without `most` all participations are kept in memory.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._rounds = [pl.DataFrame(schema=ROUNDS).select(_OF_ROUNDS)]
        self._waiting = [pl.DataFrame(schema=BUFFERED).select(_OF_PARTICIPATIONS)]
        self._files: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, _gauges: pl.DataFrame | None = None) -> None:
        """Take the next rows of the rounds and the participations; a `RunError` if a file cannot be written."""
        self._rounds.append(rounds.select(_OF_ROUNDS))
        self._waiting.append(with_staleness(participations).select(_OF_PARTICIPATIONS))
        if self._most is not None and sum(map(len, self._waiting)) > self._most:
            waiting = pl.concat(self._waiting)
            whole = len(waiting) // self._most * self._most
            for first in range(0, whole, self._most):
                self._write(waiting.slice(first, self._most))
            self._waiting = [waiting.slice(whole)]

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame | pl.LazyFrame]:
        """Return the rounds and the participations, which can be read until the block is left."""
        rounds, waiting = pl.concat(self._rounds), pl.concat(self._waiting)
        if not self._files:
            return rounds, waiting
        if len(waiting):
            self._write(waiting)
            self._waiting = [waiting.clear()]
        return rounds, pl.scan_parquet(self._files, glob=False)

    def _write(self, part: pl.DataFrame) -> None:
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="fedsim-", ignore_cleanup_errors=True)
        except OSError as error:
            raise RunError(f"no folder for temporary files can be made: {error}") from None
        path = Path(self._folder.name) / f"participations-{len(self._files):06}.parquet"
        write_table(path, part, passing=True)
        self._files.append(path)
