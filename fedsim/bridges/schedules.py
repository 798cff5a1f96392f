"""A schedule read back: the cohort of every round, for a training loop.

It needs numpy alone, and polars for Parquet files and run directories; so it works where the rest of fedsim cannot be
installed.
"""

import csv
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.bridges.schedule_format import ABOUT, COLUMNS, FORMAT, VERSION
from fedsim.common.arguments import path_of
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import RunError
from fedsim.common.json_files import read_object
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.common.regular_files import regular

_MOST = 2**62
_Row = tuple[Any, ...]


@dataclass(frozen=True)
class Round:
    """One round: the clients that were asked, and how their sessions ended."""

    number: int  # 0, 1, ...
    opened_s: float  # when it opened, in seconds since the start of the simulation
    clients: Ints  # (B,) the cohort, in the order in which it was chosen
    outcome: NDArray[np.str_]  # (B,) how each session ended: `reported`, or why no report was taken
    duration_s: Floats  # (B,) seconds from selection to the end of the session
    staleness: Ints  # (B,) versions that a buffered server had gone on by, -1 where no report came to it; 0 in rounds

    @property
    def reported(self) -> Bools:
        """(B,) whether the report of each was taken."""
        return np.asarray(self.outcome == "reported", dtype=np.bool_)

    @property
    def reporting(self) -> Ints:
        """The clients whose report was taken, in the order of the cohort."""
        return self.clients[self.reported]


@dataclass(frozen=True)
class Schedule(Sequence[Round]):
    """The rounds of a run, in order."""

    about: Mapping[str, Any]  # what it was made from: `name`, `clients`, `rounds`, `fingerprint` and so on
    rounds: tuple[Round, ...]

    @property
    def clients(self) -> int:
        """N, the clients of the federation; they are numbered from 0."""
        return int(self.about["clients"])

    @property
    def buffered(self) -> bool:
        """Whether reports came to a buffered server, late by whole versions, and not to rounds."""
        return any(each.staleness.any() for each in self.rounds)

    def __len__(self) -> int:
        return len(self.rounds)

    def __getitem__(self, number: Any) -> Any:
        return self.rounds[number]


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule that ``fedsim export schedule`` wrote as JSON, CSV or Parquet, or that of a run directory.

    Raises a `RunError` that names the file and the round or line if it cannot be read, or is not what was written.
    """
    file = path_of("path", path, "a schedule or a run directory")
    if file.is_dir():
        from fedsim.bridges.exports import about_run, schedule_of
        from fedsim.run.load import load_one

        result = load_one(file)
        return _checked(file, about_run(result), schedule_of(result).rows())
    read = {".json": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}.get(file.suffix.lower())
    if read is None:
        raise RunError(f"{file}: expected a run directory, or a schedule whose name ends in .json, .csv or .parquet")
    if not file.exists():
        raise RunError(f"{file}: no such file; `fedsim export schedule RUN --out {file.name}` writes it")
    try:
        about, rows = read(regular(file))
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise RunError(f"{file} cannot be read as a schedule: {error}") from None
    return _checked(file, about, rows)


def as_schedule(schedule: Schedule | str | os.PathLike[str]) -> Schedule:
    """Return a schedule of rounds, read from a file if need be.

    Raises a `RunError` as `read_schedule` does, or if reports count for later versions: it is of a buffered server.
    """
    if not isinstance(schedule, Schedule):
        schedule = read_schedule(schedule)
    if schedule.buffered:
        raise RunError(
            f"the schedule of {schedule.about.get('name')!r} is that of a buffered server: its reports count for later "
            "versions than they began from, and this framework trains in rounds; take a scenario whose server does too"
        )
    return schedule


def participations_of(rounds: Iterable[Ints]) -> Iterator[tuple[int, int, int, float]]:
    """Yield the round, the client, how often it has taken part by then, and how many rounds after the time before.

    `rounds` has the clients of each; the first time of a client comes an infinite number of rounds after nothing.
    """
    last, times = dict[int, int](), Counter[int]()
    for number, clients in enumerate(rounds):
        for client in clients.tolist():
            times[client] += 1
            yield number, client, times[client], number - last.get(client, -math.inf)
            last[client] = number


def _read_json(file: Path) -> tuple[Any, list[_Row]]:
    about = read_object(file)
    rounds = about.pop("schedule", None)
    if not isinstance(rounds, list):
        raise RunError(f"{file} has no list of rounds under 'schedule'")
    rows: list[_Row] = []
    for number, each in enumerate(rounds):
        if not isinstance(each, dict) or not isinstance(each.get("cohort"), list):
            raise RunError(f"{file}: round {number} has no cohort")
        at = (each.get("round"), each.get("opened_s"))
        for position, one in enumerate(each["cohort"]):
            if not isinstance(one, dict) or one.get("client") is None:
                raise RunError(f"{file}: round {number}, session {position} has no client")
            rows.append((*at, position, *(one.get(name) for name in COLUMNS[3:])))
        if not each["cohort"]:
            rows.append((*at, None, None, None, None, None))
    return about, rows


def _read_csv(file: Path) -> tuple[Any, list[_Row]]:
    with file.open(encoding="utf-8", newline="") as lines:
        first = next(lines, "")
        old = first.startswith("# ")  # as version 0.2 wrote it
        about, above = json.loads(first[2:] if old else "null"), int(old)
        columns = COLUMNS if old else (*COLUMNS, ABOUT)
        reader = csv.reader(lines if old else chain([first], lines))
        if tuple(next(reader, ())) != columns:
            raise ValueError(f"line {1 + above} is not {','.join(columns)}")
        kinds = (int, float, int, int, str, float, int)
        rows: list[_Row] = []
        for row in reader:
            if len(row) != len(columns):
                raise ValueError(f"line {reader.line_num + above} has {len(row)} fields, not {len(columns)}")
            try:
                about = json.loads(row[-1]) if not old and row[-1] else about
                if any(row[: len(kinds)]):
                    rows.append(tuple(kind(text) if text else None for kind, text in zip(kinds, row, strict=False)))
            except ValueError as error:
                raise ValueError(f"line {reader.line_num + above}: {error}") from None
    return about, rows


def _read_parquet(file: Path) -> tuple[Any, list[_Row]]:
    try:
        import polars as pl
    except ImportError:
        raise RunError(f"{file}: Parquet is read by polars, which is not installed; export JSON or CSV") from None
    try:
        about = pl.read_parquet_metadata(file).get(FORMAT)
        table = pl.read_parquet(file, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error).splitlines()[0]) from None
    if tuple(table.columns) != COLUMNS:
        raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
    return json.loads(about or "null"), table.rows()


def _checked(file: Path, about: Any, rows: list[_Row]) -> Schedule:
    """Return a schedule of rows in order, once everything is as an export writes it."""
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise RunError(f"{file} is no schedule: it does not say that its format is {FORMAT!r}")
    if about.get("version") != VERSION:
        raise RunError(f"{file} is a schedule of version {about.get('version')!r}; this fedsim reads version {VERSION}")
    for name in ("clients", "rounds"):
        if not _is_index(about.get(name), _MOST):
            raise RunError(f"{file}: {name} is {about.get(name)!r}; it must be a whole number")
    if about["rounds"] > len(rows):
        raise RunError(f"{file} says that it has {about['rounds']:,} rounds, and {len(rows):,} rows are there")
    by_round: list[list[_Row]] = [[] for _ in range(about["rounds"])]
    for row in rows:
        if not _is_index(row[0], len(by_round)):
            raise RunError(f"{file}: there is a round {row[0]!r}, and rounds are 0 to {len(by_round) - 1}")
        by_round[row[0]].append(row)
    return Schedule(about, tuple(_round(file, number, each, about["clients"]) for number, each in enumerate(by_round)))


def _round(file: Path, number: int, rows: list[_Row], clients: int) -> Round:
    place = f"{file}: round {number}"
    if not rows:
        raise RunError(f"{place} is missing")
    sessions = [] if rows[0][3] is None else rows
    for at, row in enumerate(rows):
        if not _is_number(row[1]) or row[1] != rows[0][1]:
            raise RunError(f"{place}: it opened at {row[1]!r}, not at a number of seconds that all its sessions share")
        if sessions:
            _check_session(f"{place}, session {at}", row, at, clients)
    if not sessions and len(rows) > 1:
        raise RunError(f"{place} has {len(rows)} rows, the first without a client")
    return Round(
        number,
        float(rows[0][1]),
        np.array([row[3] for row in sessions], dtype=np.int64),
        np.array([row[4] for row in sessions], dtype=np.str_),
        np.array([row[5] for row in sessions], dtype=np.float64),
        np.array([-1 if row[6] is None else row[6] for row in sessions], dtype=np.int64),
    )


def _check_session(place: str, row: _Row, at: int, clients: int) -> None:
    _, _, position, client, outcome, duration_s, staleness = row
    if position != at:
        raise RunError(f"{place} has position {position!r}; sessions are listed in order")
    if not _is_index(client, clients):
        raise RunError(f"{place} is of client {client!r}, and clients are 0 to {clients - 1}")
    if outcome not in SESSION_OUTCOMES:
        raise RunError(f"{place} ended as {outcome!r}; known are {', '.join(SESSION_OUTCOMES)}")
    if not _is_number(duration_s) or duration_s < 0:
        raise RunError(f"{place} lasted {duration_s!r} seconds")
    if staleness is not None and not _is_index(staleness, _MOST):
        raise RunError(f"{place} has staleness {staleness!r}")


def _is_index(value: Any, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and -math.inf < value < math.inf
