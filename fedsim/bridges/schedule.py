"""Export of a run as a schedule: who took part in which round, for a framework that does the training."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from fedsim._version import __version__
from fedsim.bridges.cohorts import COLUMNS, FORMAT, VERSION
from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes, write_text
from fedsim.experiment.result import Result, load
from fedsim.log import fingerprint, with_staleness


def export_schedule(directory: Path, out: Path) -> int:
    """Write the cohorts of a run, by the ending of the file's name as Parquet, JSON or CSV; return how many there are.

    Raises
    ------
    RunError
        If the run cannot be read, the file not written, or its name ends otherwise.
    """
    write = {".parquet": _write_parquet, ".json": _write_json, ".csv": _write_csv}.get(out.suffix.lower())
    if write is None:
        raise RunError(f"{out}: the name of a schedule ends in .parquet, .json or .csv")
    result = load(directory)
    write(out, schedule_of(result), about_run(result))
    return len(result.rounds)


def schedule_of(result: Result) -> pl.DataFrame:
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


def about_run(result: Result) -> dict[str, Any]:
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
            "opened_s": own["opened_s"][0],
            "cohort": own.drop_nulls("client").select("client", "outcome", "duration_s", "staleness").to_dicts(),
        }
        for (number,), own in schedule.group_by("round", maintain_order=True)
    ]
    write_text(out, json.dumps({**about, "schedule": rounds}, allow_nan=False) + "\n")


def _write_csv(out: Path, schedule: pl.DataFrame, about: dict[str, Any]) -> None:
    text = io.StringIO()
    text.write(f"# {json.dumps(about)}\n")
    written = csv.writer(text, lineterminator="\n")
    written.writerow(COLUMNS)
    written.writerows(schedule.iter_rows())
    write_text(out, text.getvalue())
