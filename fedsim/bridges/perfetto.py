"""Export of a run to the formats of other tools: the trace-event JSON that Perfetto and Chrome's tracing show."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.files import read_table, write_text
from fedsim.common.outcomes import COUNTED_OUTCOMES
from fedsim.experiment.finished import open_finished

_SERVER = 0
_MOST_CLIENTS = 2_000
_MICROSECONDS = 1e6


def export_perfetto(directory: Path, out: Path) -> int:
    """Write a run directory as a trace that https://ui.perfetto.dev opens; return how many clients were left out.

    Slices: one for each round on the server's track (and one for the time it waited), one for each session on its
    client's track, grouped by the population's groups; one for each stretch in which a condition of a recorded device
    held. Times are microseconds of simulated time. The first 2,000 clients that took part are shown.

    Raises
    ------
    RunError
        If the run cannot be read or the file not written.
    """
    open_finished(directory)
    rounds, sessions = (read_table(directory / f"{name}.parquet") for name in ("rounds", "participations"))
    groups = read_table(directory / "clients.parquet").select("client", "group")
    seen = sessions["client"].unique(maintain_order=True)
    shown = seen.head(_MOST_CLIENTS)
    sessions = sessions.filter(pl.col("client").is_in(shown.implode())).join(groups, on="client", maintain_order="left")
    tracks = {
        name: number for number, name in enumerate(groups["group"].unique(maintain_order=True).to_list(), start=1)
    }
    events = [_name("process_name", _SERVER, 0, "server")]
    events += [_name("process_name", track, 0, name) for name, track in tracks.items()]
    events += _rounds(rounds)
    for row in sessions.iter_rows(named=True):
        details = {key: row[key] for key in ("round", "client", "position", "outcome", "gap")}
        name, track = f"round {row['round']}: {row['outcome']}", tracks[row["group"]]
        events.append(_slice(name, track, row["client"], row["selected_s"], row["ended_s"], details))
    if (directory / "transitions.parquet").exists():
        until_s = float(rounds["closed_s"].to_numpy().max(initial=0.0))
        events += _conditions(read_table(directory / "transitions.parquet"), until_s)
    trace = {"displayTimeUnit": "ms", "traceEvents": events}
    write_text(out, json.dumps(trace, allow_nan=False, separators=(",", ":")) + "\n")
    return len(seen) - len(shown)


def _rounds(rounds: pl.DataFrame) -> list[dict[str, Any]]:
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


def _conditions(transitions: pl.DataFrame, until_s: float) -> list[dict[str, Any]]:
    """Return a slice for each stretch in which a condition held; each condition has a track of its own."""
    events, track = [], 10**6
    for number, ((client, condition), own) in enumerate(
        transitions.group_by("client", "condition", maintain_order=True)
    ):
        events.append(_name("thread_name", track, number, f"client {client}: {condition}"))
        begun, ended = own.filter("on")["time_s"], own.filter(~pl.col("on"))["time_s"]
        for start_s, end_s in zip(begun, [*ended, until_s], strict=False):
            if end_s > start_s:
                events.append(_slice(str(condition), track, number, start_s, end_s, {}))
    return [_name("process_name", track, 0, "devices"), *events] if events else []


def _slice(
    name: str, process: int, thread: int, start_s: float, end_s: float, details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start_s * _MICROSECONDS,
        "dur": (end_s - start_s) * _MICROSECONDS,
        "args": details,
    }


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
