"""The tables and figures of a run; finished run directories, opened unless a file is not what the run wrote."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError, ScenarioError
from fedsim.common.files import reading
from fedsim.common.json_files import checksum, read_figures, read_object
from fedsim.common.memory import free_bytes
from fedsim.common.regular_files import open_regular, regular
from fedsim.log import CLIENTS, GAUGES, PARTICIPATIONS, ROUNDS, TRANSITIONS, says
from fedsim.measure.metrics.metric import Metric
from fedsim.measure.metrics.own import Own
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document

MANIFEST, METRICS, MODELS = "manifest.json", "metrics.json", "models.npz"
UNFINISHED = "log.partial"
"""Folder in a run directory whose run has not ended: its journal, and the identity of the run."""
JOBS = "jobs"
"""Folder in the run directory of several jobs, with a run directory for each by its name."""
CHECKSUMS = "checksums"
_NOT_COUNTED = (CHECKSUMS, "wall_time_s")
"""What a manifest's own checksum leaves out."""
_WIDE: Mapping[type[pl.DataType], pl.DataType] = {pl.Int32: pl.Int64(), pl.Enum: pl.String()}
"""The types of version 0.2 in place of some of today's."""
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "rounds": ROUNDS,
    "participations": PARTICIPATIONS,
    "clients": {name: dtype for name, dtype in CLIENTS.items() if name not in {"reported", "pull"}},  # new in 0.3
    "gauges": GAUGES,
    "transitions": TRANSITIONS,
    "learning": pl.Schema({"round": pl.Int32, "closed_s": pl.Float64, "optimizer": pl.String, "loss": pl.Float64}),
    "convergence": pl.Schema({"separation": pl.Int64, "round": pl.Int64, "tv": pl.Float64, "noise_floor": pl.Float64}),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The figures of one run, and its tables: each ``NAME.parquet`` of ``docs/run-directory.md``."""

    scenario: Scenario
    replicate: int
    metrics: dict[str, float]  # `fedsim.measure.metrics.describe` says what each means
    simulated_s: float
    rounds: pl.DataFrame
    participations: pl.DataFrame | pl.LazyFrame  # a scan of their file if they do not fit into memory
    clients: pl.DataFrame
    gauges: pl.DataFrame
    learning: pl.DataFrame | None = None  # None if nothing is trained
    transitions: pl.DataFrame | None = None  # None if no devices are chosen
    convergence: pl.DataFrame | None = None  # None if no study is asked for
    models: Mapping[str, Floats] = field(default_factory=dict)  # what training left behind, by ``NAME.last`` ...

    def by_name(self) -> dict[str, pl.DataFrame | pl.LazyFrame]:
        """Return the tables that there are."""
        named = {name: getattr(self, name) for name in (*ALWAYS, *AT_TIMES)}
        return {name: table for name, table in named.items() if table is not None}


ALWAYS = ("rounds", "participations", "clients", "gauges")
"""Names of the tables that every run has."""
AT_TIMES = tuple(each.name for each in fields(Outcome) if each.default is None)
"""Names of those that some runs have."""


@dataclass(frozen=True)
class Finished:
    """The content of a run directory, checked."""

    folder: Path
    manifest: Mapping[str, Any]
    document: Document  # the scenario as plain data, as `Scenario.of_document` takes it
    scenario: Scenario
    metrics: dict[str, float]  # NaN for those without a value
    tables: tuple[str, ...]  # names of those that there are


def open_finished(folder: Path) -> Finished:
    """Open a run directory, after comparing its files with the fingerprints and checksums in the manifest.

    Nothing is run or imported for it, and a table is never wholly in memory. A `RunError` says if it is no run
    directory, its run has not ended, or which file is missing, damaged, or not the one that the run wrote.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run directory")
    path = folder / MANIFEST
    unfinished = (folder / UNFINISHED).exists() or any(folder.glob("*.parquet"))
    ended = "a run writes it last, so this one has not ended" if unfinished else "is this a run directory?"
    manifest = read_object(path, f"{path}: no such file; {ended}")
    try:
        prints, home = dict(manifest["fingerprints"]), Path(str(manifest["scenario_file"])).parent
        int(manifest["replicate"]), int(manifest["seed"]), float(manifest["simulated_s"])
        if not isinstance(manifest["name"], str):
            raise TypeError("its name is not text")  # noqa: TRY301
        document = Document(dict(manifest["scenario"]), str(path), home)
        checksums = dict(manifest[CHECKSUMS])
        if checksums.get(MANIFEST) != checksum(manifest, *_NOT_COUNTED):
            raise RunError(f"{path} is not the manifest that the run wrote: its checksum is another")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{path} is not the manifest of a run: {type(error).__name__}: {error}") from None
    try:
        scenario = Scenario.of_document(document)
    except ScenarioError as error:
        raise RunError(f"{path} holds a scenario that this version cannot read:\n{error}") from None
    metrics = read_figures(folder / METRICS)
    if MODELS in checksums and not (folder / MODELS).is_file():
        raise RunError(f"{folder / MODELS}: no such file; the run wrote it")
    for file in filter(Path.exists, (folder / METRICS, folder / MODELS)):
        if checksums.get(file.name) != _hash_of(file):
            raise RunError(f"{file} is not the file that the run wrote: its checksum in {MANIFEST} is another")
    names = [*ALWAYS, *(name for name in AT_TIMES if name in prints)]
    for name in (*ALWAYS, *AT_TIMES):
        table = folder / f"{name}.parquet"
        if name in names:
            _check_table(table, _SCHEMAS[name], prints.get(name))
        elif table.exists():
            raise RunError(f"{table} is not a table that the run wrote: {MANIFEST} does not list it")
    return Finished(folder, manifest, document, scenario, metrics, tuple(names))


def check_one(directory: Path, scenario: Scenario) -> None:
    """Raise a `RunError` if the run of a directory is that of several jobs, where the run of one server is wanted."""
    if jobs := ", ".join(str(directory / JOBS / name) for name in scenario.jobs):
        raise RunError(
            f"{directory} is a run of several jobs, and this is about one: name its own directory, of {jobs}"
        )


def declared_by(manifest: Mapping[str, Any]) -> tuple[Own, ...]:
    """Return the scenario's own metrics as a manifest declares them, which cannot be measured again."""
    described = manifest.get("own_metrics", [])
    try:
        return tuple(Own("", (Metric(**each),), "both") for each in described)
    except TypeError as error:
        raise RunError(f"{MANIFEST} is not the manifest of a run: its own metrics: {error}") from None


def checksums(manifest: Mapping[str, Any], metrics: str) -> dict[str, str]:
    """Return the checksums that a manifest holds: its own, and that of the figures as they are written."""
    return {MANIFEST: checksum(manifest, *_NOT_COUNTED), METRICS: hashlib.sha256(metrics.encode()).hexdigest()}


def _hash_of(path: Path) -> str:
    try:
        with open_regular(path, free_bytes()) as opened:  # it is to be read as a whole
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from None


def _check_table(path: Path, schema: Mapping[str, Any], known: object) -> None:
    with reading(path, "the run wrote it"):
        scan = pl.scan_parquet(regular(path), glob=False)
        there = scan.collect_schema()
        wrong = [name for name, dtype in schema.items() if there.get(name) not in {dtype, _WIDE.get(type(dtype))}]
        same = not wrong and says(scan, known)
    if wrong:
        raise RunError(f"{path} is not the table that the run wrote: it lacks {', '.join(wrong)}, or as another type")
    if not same:
        raise RunError(f"{path} is not the table that the run wrote: its fingerprint in {MANIFEST} is another")
