"""A run that is under way, in a folder: the settled parts of its log, and where it stood at the opening of a round."""

import time
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import polars as pl

from fedsim.common.errors import RunError
from fedsim.common.files import join_tables, write_arrays, write_table
from fedsim.log.columns import Arrays
from fedsim.log.tables import StoredLog

SOONEST_S = 1.0
"""Seconds between two states that are kept, at least."""
PATIENCE = 100.0
"""... and so many times as long as keeping one takes, so that a run is slowed down by 1 % at most."""
TABLES = ("rounds", "participations", "gauges")
"""Names of the tables of a log."""
STATE = "state.npz"


class Journal:
    """What a simulation writes while it runs; opened again, it stands where the last state was kept.

    Parameters
    ----------
    folder
        Where it is, or is to be.

    Attributes
    ----------
    state
        What was kept last; None before the first time.

    Raises
    ------
    RunError
        If the folder cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.state = _read(folder / STATE)
            self._parts = 0 if self.state is None else int(self.state["parts"])
            self._forget_from(self._parts)
        except OSError as error:
            raise RunError(f"{folder} cannot be read: {error.strerror or error}") from None
        self._earlier_s = 0.0 if self.state is None else float(self.state["wall_s"])
        self._opened = time.monotonic()
        self._due = self._opened + SOONEST_S

    @property
    def wall_s(self) -> float:
        """Seconds that the run has taken, with those before it was interrupted."""
        return self._earlier_s + time.monotonic() - self._opened

    @property
    def ended_s(self) -> float | None:
        """Simulated time at which the run ended; None while it is under way."""
        return None if self.state is None or "ended_s" not in self.state else float(self.state["ended_s"])

    def add(self, rounds: pl.DataFrame, participations: pl.DataFrame, gauges: pl.DataFrame) -> None:
        """Take the next rows of the rounds, the participations and the gauges."""
        for name, table in zip(TABLES, (rounds, participations, gauges), strict=True):
            write_table(self._part(name, self._parts), table, passing=True)
        self._parts += 1

    def due(self) -> bool:
        """Say whether it is time to keep a state again."""
        return time.monotonic() >= self._due

    def keep(self, state: Arrays) -> None:
        """Write down where the simulation stands, with the parts that were added before."""
        began = time.monotonic()
        self._write(state)
        now = time.monotonic()
        self._due = now + max(SOONEST_S, PATIENCE * (now - began))

    def close(self, directory: Path, ended_s: float) -> None:
        """Put the tables of the log, which is whole now, into a directory."""
        for name in TABLES:
            join_tables(directory / f"{name}.parquet", [self._part(name, number) for number in range(self._parts)])
        parts, self._parts = self._parts, 0
        self._write({"ended_s": np.array(ended_s)})
        for number in range(parts):
            for name in TABLES:
                self._part(name, number).unlink()

    def _write(self, state: Arrays) -> None:
        self.state = {**state, "parts": np.array(self._parts), "wall_s": np.array(self.wall_s)}
        write_arrays(self._folder / STATE, self.state)

    def _part(self, name: str, number: int) -> Path:
        return self._folder / f"{name}-{number:06}.parquet"

    def _forget_from(self, parts: int) -> None:
        """Remove what was written after the state was kept."""
        known = {self._part(name, number) for name in TABLES for number in range(parts)}
        for path in self._folder.glob("*.parquet"):
            if path not in known:
                path.unlink()
        for path in self._folder.glob(".*.partial"):
            path.unlink()


def stored_log(directory: Path, ended_s: float) -> StoredLog:
    """Return the log whose tables are in a directory; the participations stay in their file."""
    rounds, participations, gauges = (directory / f"{name}.parquet" for name in TABLES)
    try:
        return StoredLog(
            pl.read_parquet(rounds, glob=False),
            pl.scan_parquet(participations, glob=False),
            pl.read_parquet(gauges, glob=False),
            ended_s,
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError(f"{directory}: the log cannot be read: {error}") from None


def _read(path: Path) -> Arrays | None:
    if not path.exists():
        return None
    try:
        with path.open("rb") as opened, np.load(opened) as arrays:
            return dict(arrays)
    except (ValueError, BadZipFile) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
