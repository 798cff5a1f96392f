"""Where settled parts of the log are kept until the run is over."""

import polars as pl

from fedsim.log.tables import GAUGES, PARTICIPATIONS, ROUNDS

Parts = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


class Spool:
    """Parts of the three tables, in memory."""

    def __init__(self) -> None:
        self._parts: list[Parts] = []

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the rounds, the participations and the gauges."""
        self._parts.append((rounds, participations, gauges))

    def tables(self) -> Parts:
        """Return everything that was added."""
        empty = tuple(pl.DataFrame(schema=schema) for schema in (ROUNDS, PARTICIPATIONS, GAUGES))
        rounds, participations, gauges = zip(empty, *self._parts, strict=True)
        return pl.concat(rounds), pl.concat(participations), pl.concat(gauges)
