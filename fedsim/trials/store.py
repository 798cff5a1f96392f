"""The sweep directory: one file for each run, its loss curves, what the sweep is, and what crashed."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError
from fedsim.common.files import LOCK_FILE, UNREADABLE, read_table, reading, remove, sole_writer, write_table, write_text
from fedsim.common.json_files import as_json, checksum, finite, read_object
from fedsim.common.regular_files import check_folders, regular
from fedsim.log import Fingerprint

SWEEP_FILE = "sweep.json"
MERGED_FILE = "results.parquet"
RUNS, CURVES = "runs", "curves"
"""The folders of results, and of loss curves."""
_CRASHED = ".crashed.json"
_CHECKSUM = "checksum"
_SEAL = "fedsim"
"""Key of the metadata of a file of results: the fingerprint of its rows."""
_NOT_COUNTED = (_CHECKSUM, "wall_time_s")
RUN_COLUMNS = {"run_id": pl.String, "seed": pl.Int64, "metric": pl.String, "value": pl.Float64}
CURVE_COLUMNS = {"run_id": pl.String, "optimizer": pl.String, "round": pl.Int64, "loss": pl.Float64}
CURVE_POINTS = 60  # of a loss curve


def open_sweep_directory(directory: str | Path) -> Path:
    """Make a sweep directory ready to be written; what an earlier call has written stays.

    It is a `RunError` if it is not a folder, or holds files but no sweep.
    """
    folder = path_of("directory", directory, "the folder to write")
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        ours = {SWEEP_FILE, MERGED_FILE, RUNS, CURVES, LOCK_FILE}
        check_folders(folder)
        others = [path.name for path in folder.iterdir() if path.name not in ours and path.suffix != ".partial"]
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from None
    if others and not (folder / SWEEP_FILE).exists():
        raise RunError(f"{folder} holds files that are not a sweep's; choose another folder with --out")
    return folder


@contextmanager
def sole_sweep_writer(folder: Path) -> Iterator[None]:
    """Refuse a second sweep in a directory while the block runs, with a `RunError`; half-written files are removed."""
    with sole_writer(folder, "sweep"):
        for left in (
            *folder.glob(".*.partial"),
            *folder.glob(f"{RUNS}/.*.partial"),
            *folder.glob(f"{CURVES}/.*.partial"),
        ):
            remove(left)
        yield


def run_file(folder: Path, run_id: str) -> Path:
    """Return where the results of a run are kept."""
    return folder / RUNS / f"{run_id}.parquet"


def mark_of(folder: Path, run_id: str) -> Path:
    """Return the file that exists while a worker does a run."""
    return folder / RUNS / f".{run_id}.begun.partial"


def remove_mark(folder: Path, run_id: str) -> None:
    """Remove that file, so that the worker ends its run."""
    with suppress(OSError):
        mark_of(folder, run_id).unlink(missing_ok=True)


def write_run_results(folder: Path, run_id: str, seed: int, metrics: Mapping[str, float]) -> None:
    """Write the results of a run: one row for each metric, null where it is not finite."""
    values = finite(metrics)
    columns = {"run_id": [run_id] * len(values), "seed": [seed] * len(values), "metric": [*values]}
    columns["value"] = [*values.values()]
    table = pl.DataFrame(columns, schema=RUN_COLUMNS)
    write_table(run_file(folder, run_id), table, about=lambda _: {_SEAL: _seal_of(table)})


def write_curves(folder: Path, run_id: str, learning: pl.DataFrame) -> None:
    """Write the losses of a run's optimizers after evenly spaced rounds, the first being those of the initial model."""
    rounds = learning["round"].unique().sort()
    kept = rounds.gather(np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), CURVE_POINTS)).astype(np.int64)))
    table = (
        learning.filter(pl.col("round").is_in(kept.implode()))
        .with_columns(run_id=pl.lit(run_id))
        .select(pl.col(name).cast(dtype) for name, dtype in CURVE_COLUMNS.items())
    )
    (folder / CURVES).mkdir(exist_ok=True)
    write_table(folder / CURVES / f"{run_id}.parquet", table, about=lambda _: {_SEAL: _seal_of(table)})


def read_curves(folder: Path, run_ids: Iterable[str]) -> pl.DataFrame:
    """Return the loss curves of some runs, of those that have any; a `RunError` names a file that is damaged."""
    files = [path for each in run_ids if os.path.lexists(path := folder / CURVES / f"{each}.parquet")]
    return pl.concat([pl.DataFrame(schema=CURVE_COLUMNS), *(_read_results_of(file, CURVE_COLUMNS) for file in files)])


def write_crash(folder: Path, run_id: str, attempts: int, error: str, *, stalled: bool = False) -> None:
    """Note that a run has crashed for good, and whether it would stall again."""
    noted = {"run_id": run_id, "attempts": attempts, "error": error, "stalled": stalled}
    write_text(folder / RUNS / f"{run_id}{_CRASHED}", as_json({**noted, _CHECKSUM: checksum(noted)}))


def forget_crashes(folder: Path, run_ids: Iterable[str]) -> None:
    """Remove the notes of these runs' crashes."""
    for run_id in crashed_runs(folder).intersection(run_ids):
        remove(folder / RUNS / f"{run_id}{_CRASHED}")


def complete_runs(folder: Path) -> set[str]:
    """Return the runs whose results are there, merged or in files of their own."""
    run_ids = {path.stem for path in (folder / RUNS).glob("[!.]*.parquet")}
    if os.path.lexists(folder / MERGED_FILE):  # also a link to nothing
        run_ids |= set(_read_results_of(folder / MERGED_FILE)["run_id"].unique())
    return run_ids


def crashed_runs(folder: Path) -> set[str]:
    """Return the runs that are noted as crashed."""
    return {path.name.removesuffix(_CRASHED) for path in (folder / RUNS).glob(f"*{_CRASHED}")}


def stalled_runs(folder: Path) -> dict[str, str]:
    """Return the runs that are noted as stalled, with their errors; a note that is damaged does not count."""
    errors = dict[str, str]()
    for run_id in crashed_runs(folder):
        with suppress(RunError, ValueError):
            noted = read_object(folder / RUNS / f"{run_id}{_CRASHED}")
            whole = noted.pop(_CHECKSUM, None) == checksum(noted) and noted.get("run_id") == run_id
            if whole and noted.get("stalled"):
                errors[run_id] = str(noted.get("error"))
    return errors


def compact(folder: Path, beside: pl.DataFrame, about: Mapping[str, str]) -> Path:
    """Merge the files of all runs into one, ``results.parquet``, and remove them; resuming takes notice of it.

    `beside` has more columns for each ``run_id``, and `about` more metadata, for people who read the file alone.
    """
    files = sorted((folder / RUNS).glob("[!.]*.parquet"))
    merged, table = folder / MERGED_FILE, read_runs(folder)
    about = {**about, _SEAL: _seal_of(table)}
    write_table(merged, table.join(beside, on="run_id", how="left", maintain_order="left"), about=lambda _: about)
    for file in files:
        remove(file)
    return merged


def read_runs(folder: Path) -> pl.DataFrame:
    """Return the results of all complete runs: ``run_id``, ``seed``, ``metric``, ``value``; each run once."""
    merged = folder / MERGED_FILE
    parts = [_read_results_of(merged)] if os.path.lexists(merged) else [pl.DataFrame(schema=RUN_COLUMNS)]
    merged_ids = set(parts[0]["run_id"].unique())
    files = sorted(path for path in (folder / RUNS).glob("[!.]*.parquet") if path.stem not in merged_ids)
    try:
        single = pl.read_parquet([*map(regular, files)], glob=False) if files else pl.DataFrame(schema=RUN_COLUMNS)
        if set(single["run_id"].unique()) != {file.stem for file in files}:
            wrong = next(file for file in files if set(_read_results_of(file)["run_id"]) != {file.stem})
            raise RunError(f"{wrong} does not hold the results of its run; remove it, and run the sweep again")
        for (run_id,), table in single.partition_by("run_id", as_dict=True).items():
            _check_seal(run_file(folder, str(run_id)), table)
        return pl.concat([*parts, single])
    except UNREADABLE as error:
        for file in files:
            _read_results_of(file)  # says which one it is
        raise RunError(f"{folder / RUNS} cannot be read: {str(error).partition(chr(10))[0]}") from None


def _read_results_of(path: Path, columns: Mapping[str, Any] = RUN_COLUMNS) -> pl.DataFrame:
    """Read a table of runs; raise `RunError` if it is not one."""
    table = read_table(path, "remove it, and run the sweep again")
    if not columns.items() <= table.schema.items():
        raise RunError(f"{path} does not hold the results of runs; remove it, and run the sweep again")
    table = table.select(*columns)
    _check_seal(path, table)
    return table


def _seal_of(table: pl.DataFrame) -> str:
    seal = Fingerprint(table.schema)
    seal.add(table)
    return seal.hexdigest()


def _check_seal(path: Path, table: pl.DataFrame) -> None:
    if _seal_in(path) not in (None, _seal_of(table)):
        raise _no_seal(path, "is another")


def _seal_in(path: Path) -> str | None:
    with reading(path):
        return pl.read_parquet_metadata(regular(path)).get(_SEAL)


def _no_seal(path: Path, why: str) -> RunError:
    return RunError(f"{path} is not what the sweep wrote: its checksum {why}; remove it, and run the sweep again")


def check_sealed(folder: Path) -> None:
    """Raise a `RunError` if a file of results has no checksum, as before 0.3; nothing else may vouch for it."""
    for path in (*(folder / RUNS).glob("[!.]*.parquet"), *folder.glob(MERGED_FILE)):
        if _seal_in(path) is None:
            raise _no_seal(path, "is missing")


def write_sweep(folder: Path, sweep: Mapping[str, Any]) -> None:
    """Write what the sweep is and how it stands, with a checksum of it."""
    write_text(folder / SWEEP_FILE, as_json({**sweep, _CHECKSUM: checksum(sweep, *_NOT_COUNTED)}))


def read_sweep(directory: str | Path) -> dict[str, Any]:
    """Read ``sweep.json``; a `RunError` says that the directory is not a sweep's, or the file is damaged."""
    path = Path(directory) / SWEEP_FILE
    sweep = read_object(path, f"{directory} is not a sweep directory: it has no {SWEEP_FILE}")
    wanted = {"name", "scenario", "parameters", "points", "runs"}
    lists = all(isinstance(sweep.get(key), list) for key in ("parameters", "points", "runs"))
    if not (wanted <= sweep.keys() and lists and isinstance(sweep["scenario"], dict)):
        raise RunError(f"{path} is not that of a sweep")
    try:
        same = sweep.get(_CHECKSUM) == checksum(sweep, *_NOT_COUNTED)
    except ValueError:  # NaN, which is never written
        same = False
    if not same:
        raise RunError(f"{path} is not what the sweep wrote: its checksum is another; run the sweep again")
    return sweep
