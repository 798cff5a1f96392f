"""Where settled parts of the log are kept until the run is over."""

from typing import Protocol

import polars as pl

from fedsim.log.tables import Log


class Spool(Protocol):
    """Takes the tables of a log, some rows at a time."""

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the rounds, the participations and the gauges."""
        ...


class Memory:
    """Parts of the three tables, in memory."""

    def __init__(self) -> None:
        self._parts: list[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]] = []

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the rounds, the participations and the gauges."""
        self._parts.append((rounds, participations, gauges))

    def log(self, ended_s: float) -> Log:
        """Return everything that was added, which has to be something."""
        rounds, participations, gauges = zip(*self._parts, strict=True)
        return Log(pl.concat(rounds), pl.concat(participations), pl.concat(gauges), ended_s)
