"""Exports of a run: its log as CSV, the schedule of who took part in which round, and trace events for Perfetto."""

import io
import json
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from fedsim._version import __version__
from fedsim.bridges.schedule_format import ABOUT, COLUMNS, FORMAT, VERSION
from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes, write_text
from fedsim.common.outcomes import COUNTED_OUTCOMES
from fedsim.log import fingerprint, with_staleness
from fedsim.run.load import load, load_one
from fedsim.run.run import Run

_SERVER = 0
_MOST_CLIENTS = 2_000
_MICROSECONDS = 1e6
_Event: TypeAlias = dict[str, Any]
_LOG = ("client", "selected_s", "ended_s", "outcome", "round", "staleness")
"""Columns of participations that a production log has, too."""
_OF_THE_RUN = {"participations", "frequency", "reported", "pull", "pi", "pi_method", "device"}
"""Columns of clients that are measured."""


def export_schedule(directory: Path, out: Path) -> int:
    """Write the cohorts of a run, by the ending of the file's name as Parquet, JSON or CSV; return how many there are.

    Raises a `RunError` if the run cannot be read, the file not written, or its name ends otherwise.
    """
    write = {".parquet": _write_parquet, ".json": _write_json, ".csv": _write_csv}.get(out.suffix.lower())
    if write is None:
        raise RunError(f"{out}: the name of a schedule ends in .parquet, .json or .csv")
    result = load_one(directory)
    write(out, schedule_of(result), about_run(result))
    return len(result.rounds)


def export_csv(directory: Path, out: Path) -> list[Path]:
    """Write a run as the log that a production has of it: ``log.csv``, ``clients.csv`` and ``rounds.csv``.

    ``fedsim measure`` makes the same facts of them, as far as a log tells them. Raises a `RunError` if the run cannot
    be read or a file not written.
    """
    run = load_one(directory)
    names = [name for name in _LOG if name in run.participations.columns]
    clients = [name for name in run.clients.columns if name not in _OF_THE_RUN]
    tables = {"log": run.participations.select(names), "clients": run.clients.select(clients), "rounds": run.rounds}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}") from None
    for name, table in tables.items():
        write_bytes(out / f"{name}.csv", table.write_csv().encode())
    return [out / f"{name}.csv" for name in tables]


def schedule_of(result: Run) -> pl.DataFrame:
    """Return one row for each session in the order of rounds and positions, and one for each round without any.

    Columns are `COLUMNS`: ``opened_s`` in seconds since the start of the run; ``position`` of the client in its cohort;
    ``outcome`` of the session; ``duration_s`` from its selection to its end; ``staleness`` of the report in versions: 0
    where the server runs rounds, null where no report came to a buffered one. In the row of a round without sessions
    all but the first two are null.
    """
    sessions = with_staleness(result.participations).with_columns(
        pl.col("outcome").cast(pl.String), duration_s=pl.col("ended_s") - pl.col("selected_s")
    )
    rounds = result.rounds.select("round", "opened_s")
    joined = rounds.join(sessions, on="round", how="left", maintain_order="left")
    return joined.sort("round", "position", maintain_order=True).select(COLUMNS)


def about_run(result: Run) -> dict[str, Any]:
    """Return what the schedule of a run says it was made from."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "fedsim": __version__,
        "name": result.scenario.name,
        "start": result.scenario.model_dump(mode="json")["start"],
        "clients": len(result.clients),
        "rounds": len(result.rounds),
        "fingerprint": fingerprint(result.participations),
    }


def _write_parquet(out: Path, schedule: pl.DataFrame, about: dict[str, Any]) -> None:
    schedule.write_parquet(buffer := io.BytesIO(), metadata={FORMAT: json.dumps(about)})
    write_bytes(out, buffer.getvalue())


def _write_json(out: Path, schedule: pl.DataFrame, about: dict[str, Any]) -> None:
    rounds = [
        {
            "round": number,
            "opened_s": sessions["opened_s"][0],
            "cohort": sessions.drop_nulls("client").select("client", "outcome", "duration_s", "staleness").to_dicts(),
        }
        for (number,), sessions in schedule.group_by("round", maintain_order=True)
    ]
    write_text(out, json.dumps({**about, "schedule": rounds}, allow_nan=False) + "\n")


def _write_csv(out: Path, schedule: pl.DataFrame, about: dict[str, Any]) -> None:
    rows = schedule if len(schedule) else schedule.clear(1)
    metadata = pl.Series(ABOUT, [json.dumps(about), *[None] * (len(rows) - 1)], dtype=pl.String)
    write_text(out, rows.with_columns(metadata).write_csv())


def export_perfetto(directory: Path, out: Path) -> int:
    """Write a run directory as a trace that https://ui.perfetto.dev opens; return how many clients were left out.

    Slices: one for each round on the server's track (and one for the time it waited), one for each session on its
    client's track, grouped by the population's groups; one for each stretch in which a condition of a recorded device
    held. Times are microseconds of simulated time. The first 2,000 clients that took part are shown. Raises a
    `RunError` if the run cannot be read or the file not written.
    """
    run = load(directory)
    rounds, sessions, groups = run.rounds, run.participations, run.clients.select("client", "group")
    seen = sessions["client"].unique(maintain_order=True)
    shown = seen.head(_MOST_CLIENTS)
    sessions = sessions.filter(pl.col("client").is_in(shown.implode())).join(groups, on="client", maintain_order="left")
    names = groups["group"].unique(maintain_order=True).to_list()
    tracks = {name: number for number, name in enumerate(names, start=1)}
    events = [_name("process_name", _SERVER, 0, "server")]
    events += [_name("process_name", track, 0, name) for name, track in tracks.items()]
    events += _rounds(rounds)
    for row in sessions.iter_rows(named=True):
        details = {key: row[key] for key in ("round", "client", "position", "outcome", "gap")}
        name, track = f"round {row['round']}: {row['outcome']}", tracks[row["group"]]
        events.append(_slice(name, track, row["client"], row["selected_s"], row["ended_s"], details))
    if run.transitions is not None:
        events += _conditions(run.transitions, float(rounds["closed_s"].to_numpy().max(initial=0.0)))
    trace = {"displayTimeUnit": "ms", "traceEvents": events}
    write_text(out, json.dumps(trace, allow_nan=False, separators=(",", ":")) + "\n")
    return len(seen) - len(shown)


def _rounds(rounds: pl.DataFrame) -> list[_Event]:
    events = []
    for row in rounds.iter_rows(named=True):
        selected = row["closed_s"] if row["selected_s"] is None else row["selected_s"]
        if selected > row["opened_s"]:
            events.append(_slice(f"round {row['round']}: waiting", _SERVER, 0, row["opened_s"], selected, {}))
        if row["selected_s"] is not None:
            counts = {key: row[key] for key in ("round", "selected", *COUNTED_OUTCOMES, "outcome")}
            name = f"round {row['round']}: {row['outcome']}"
            events.append(_slice(name, _SERVER, 0, row["selected_s"], row["closed_s"], counts))
    return events


def _conditions(transitions: pl.DataFrame, until_s: float) -> list[_Event]:
    """Return a slice for each stretch in which a condition held; each condition has a track of its own."""
    events, track = [], 10**6
    held = transitions.group_by("client", "condition", maintain_order=True)
    for number, ((client, condition), changes) in enumerate(held):
        events.append(_name("thread_name", track, number, f"client {client}: {condition}"))
        begun, ended = changes.filter("on")["time_s"], changes.filter(~pl.col("on"))["time_s"]
        for start_s, end_s in zip(begun, [*ended, until_s], strict=False):
            if end_s > start_s:
                events.append(_slice(str(condition), track, number, start_s, end_s, {}))
    return [_name("process_name", track, 0, "devices"), *events] if events else []


def _slice(name: str, process: int, thread: int, start_s: float, end_s: float, details: dict[str, Any]) -> _Event:
    begun, lasted = start_s * _MICROSECONDS, (end_s - start_s) * _MICROSECONDS
    return {"name": name, "ph": "X", "pid": process, "tid": thread, "ts": begun, "dur": lasted, "args": details}


def _name(what: str, process: int, thread: int, name: str) -> _Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
