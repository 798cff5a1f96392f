"""A run that is under way, in a folder: the settled parts of its log, and where it stood at the opening of a round."""

import hashlib
import os
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from fedsim.common.errors import RunError
from fedsim.common.files import UNREADABLE, About, join_tables, read_checked, remove, write_checked, write_table
from fedsim.common.regular_files import open_regular, regular
from fedsim.log.columns import Arrays
from fedsim.log.recorder import InMemoryLog

SOONEST_S = 1.0
"""Seconds between two states that are kept, at least."""
PATIENCE = 100.0
"""... and so many times as long as keeping one takes, so that a run is slowed down by 1 % at most."""
TABLES = ("rounds", "participations", "gauges")
STATE = "state.npz"
_HASHES, _HASH_BYTES = "hashes", 40  # SHA-256, and the size in 8 bytes


class Journal:
    """What a simulation writes into a folder while it runs; opened again, it stands where the last state was kept.

    `state` is that state, None before the first one, and `file` its place; `run` says of which run it is. A `RunError`
    says if the folder cannot be read or written, or holds something else than was kept there for that run.
    """

    def __init__(self, folder: Path, run: str = "") -> None:
        self._folder, self._run, self.file = folder, run, folder / STATE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.state = _read(folder / STATE, run)
            self._hashes: list[bytes] = [] if self.state is None else [bytes(each) for each in self.state[_HASHES]]
            self._forget_others()
            if self.ended_s is None:
                for path, digest in zip(self._files(), self._hashes, strict=True):
                    _check(path, digest)
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
        """Take the next rows of the three tables."""
        paths = [self._part(name, self._parts) for name in TABLES]
        for path, table in zip(paths, (rounds, participations, gauges), strict=True):
            write_table(path, table, passing=True)
        self._hashes += map(_hash, paths)

    def due(self) -> bool:
        """Say whether it is time to keep another state."""
        return time.monotonic() >= self._due

    def keep(self, state: Arrays) -> None:
        """Write down where the simulation stands, with the parts that were added before."""
        began = time.monotonic()
        self._write(state)
        now = time.monotonic()
        self._due = now + max(SOONEST_S, PATIENCE * (now - began))

    @property
    def stalled(self) -> str:
        """Why the run ended before its stop; "" if it did not, or is under way."""
        return str(self.state["stalled"]) if self.ended_s is not None and self.state is not None else ""

    def close(self, directory: Path, ended_s: float, stalled: str = "", about: About | None = None) -> None:
        """Put the tables of the log, which is whole now, into a directory."""
        for name in TABLES:
            written = [self._part(name, number) for number in range(self._parts)]
            join_tables(directory / f"{name}.parquet", written, about)
        parts = self._files()
        self._hashes = [_hash(directory / f"{name}.parquet") for name in TABLES]
        self._write({"ended_s": np.array(ended_s), "stalled": np.array(stalled)})
        for path in parts:
            remove(path)

    @property
    def log(self) -> str:
        """Text that says which log this is: of which run, and the hashes of its tables."""
        return f"{self._run}\n{b''.join(self._hashes).hex()}"

    def check_tables(self, directory: Path) -> None:
        """Raise a RunError if the tables in a directory are not those that `close` has put there."""
        for name, digest in zip(TABLES, self._hashes, strict=True):
            _check(directory / f"{name}.parquet", digest)

    @property
    def _parts(self) -> int:
        return len(self._hashes) // len(TABLES)

    def _files(self) -> list[Path]:
        """Return the files of the parts that are known, in the order of their hashes."""
        return [self._part(name, number) for number in range(self._parts) for name in TABLES]

    def _write(self, state: Arrays) -> None:
        hashes = np.frombuffer(b"".join(self._hashes), dtype=np.uint8).reshape(-1, _HASH_BYTES)
        self.state = {**state, _HASHES: hashes, "wall_s": np.array(self.wall_s)}
        write_checked(self.file, self.state, self._run)

    def _part(self, name: str, number: int) -> Path:
        return self._folder / f"{name}-{number:06}.parquet"

    def _forget_others(self) -> None:
        """Remove what was written after the state was kept."""
        kept = set(self._files()) if self.ended_s is None else set()
        for path in self._folder.glob("*.parquet"):
            if path not in kept:
                path.unlink()
        for path in self._folder.glob(".*.partial"):
            path.unlink()


class StoredLog:
    """The log whose tables are in a directory, and when its simulation ended (s); participations stay in their file."""

    def __init__(self, directory: Path, ended_s: float) -> None:
        rounds, participations, gauges = (directory / f"{name}.parquet" for name in TABLES)
        self.ended_s = ended_s
        try:
            self.rounds = pl.read_parquet(regular(rounds), glob=False)
            self.participations = pl.scan_parquet(regular(participations), glob=False)
            self.gauges = pl.read_parquet(regular(gauges), glob=False)
        except UNREADABLE as error:
            raise RunError(f"{directory}: the log cannot be read: {error}") from None


AnyLog: TypeAlias = InMemoryLog | StoredLog
"""What a simulation wrote: ``rounds``, ``participations``, which can be larger than the memory, ``gauges``, and
``ended_s``."""


def _read(path: Path, run: str) -> Arrays | None:
    if not os.path.lexists(path):
        return None
    try:
        state = read_checked(path, run)
        for name in ("wall_s", "ended_s") if "ended_s" in state else ("wall_s", "number", "now"):
            int(state[name])  # finite
        hashes = state[_HASHES]
        if hashes.ndim != 2 or hashes.shape[1] != _HASH_BYTES or len(hashes) % len(TABLES) or hashes.dtype != np.uint8:
            raise ValueError("its parts are not listed")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001  zipfile and numpy raise nearly anything on what is damaged
        raise damaged(path, f"{type(error).__name__}: {error}") from None
    return state


def damaged(path: Path, why: str) -> RunError:
    """Return the error that says that a file of an interrupted run is not what the run wrote."""
    return RunError(f"{path} is damaged ({why}); leave out --resume to run from the beginning")


def _hash(path: Path) -> bytes:
    with open_regular(path) as opened:
        return hashlib.file_digest(opened, "sha256").digest() + opened.tell().to_bytes(8)


def _check(path: Path, digest: bytes) -> None:
    try:
        same = path.stat().st_size == int.from_bytes(digest[-8:]) and _hash(path) == digest  # a huge one is not read
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    if not same:
        raise damaged(path, "it is not what the run wrote")
