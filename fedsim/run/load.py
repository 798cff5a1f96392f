"""Reads run directories: the one way back from files to a `Run`, unless a file is not what the run wrote."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.arrays import Floats
from fedsim.common.errors import MissingRunError, RunError, ScenarioError
from fedsim.common.files import read_table, reading
from fedsim.common.json_files import checksum, read_figures, read_object
from fedsim.common.memory import free_bytes
from fedsim.common.regular_files import open_regular, regular
from fedsim.log import has_fingerprint
from fedsim.measure.contributions import contributions
from fedsim.measure.facts import facts_of
from fedsim.measure.metrics.metric import Metric
from fedsim.measure.metrics.own import OwnMetrics
from fedsim.measure.series import series_of
from fedsim.measure.shares import judge_shares
from fedsim.run.files import (
    ALWAYS,
    AT_TIMES,
    CHECKSUMS,
    FACTS_FILE,
    JOBS,
    MANIFEST,
    METRICS,
    MODELS,
    NOT_COUNTED,
    SCHEMAS,
    SERIES_FOLDER,
    UNFINISHED,
    WIDE,
)
from fedsim.run.jobs import SharedRun
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.permissions import Permissions

_KEPT = re.compile(
    "|".join([*map(re.escape, (MANIFEST, METRICS, MODELS, FACTS_FILE)), rf"{SERIES_FOLDER}/[\w-]+\.parquet"])
)
"""Names of the files that have a checksum in the manifest."""


def load(directory: str | os.PathLike[str], *, allow_plugins: bool = False, allow_outside: bool = False) -> Run:
    """Return the run of a run directory, as `fedsim.simulate` gave it: tables, figures and scenario.

    Nothing is run or imported, and the participations are read when they are asked for. The two permissions are for
    what is done with ``result.scenario`` afterwards.

    Parameters
    ----------
    directory
        As ``fedsim run`` or `Run.save` wrote it. Files that the scenario names are looked for next to the scenario
        file that the manifest names, or in the working folder if it names none.
    allow_plugins, allow_outside
        As in `Scenario.load`.

    Raises
    ------
    RunError
        If it is no run directory, its run has not ended, or a file is missing, damaged, or not the one that the run
        wrote; the message names it.

    >>> directory = simulate(Scenario.load("paper/synthetic", ["stop.rounds=50"])).save("runs/first")
    >>> load(directory).scenario.name
    'synthetic'
    """
    folder = path_of("directory", directory, "a run directory")
    scenario, manifest, metrics = _opened(folder, Permissions(allow_plugins, allow_outside))
    checksums, prints = manifest[CHECKSUMS], manifest["fingerprints"]
    tables: dict[str, Any] = {}
    for name in (*ALWAYS, *AT_TIMES):
        table = folder / f"{name}.parquet"
        if name in ALWAYS or name in prints:
            tables[name] = _table(table, SCHEMAS[name], prints.get(name), whole=name != "participations")
        elif table.exists():
            raise RunError(f"{table} is not a table that the run wrote: {MANIFEST} does not list it")
    if "reported" not in tables["clients"].columns:  # before 0.3
        tables["clients"] = tables["clients"].with_columns(reported="participations")
    models: dict[str, Floats] = {}
    if MODELS in checksums:
        from fedsim.learning.kept_models import read_models

        models = read_models(folder / MODELS)
    simulated_s, log = float(manifest["simulated_s"]), tables.pop("participations")
    if FACTS_FILE in checksums:
        facts = read_table(folder / FACTS_FILE)
        files = [folder / file for file in checksums if file.startswith(f"{SERIES_FOLDER}/")]
        series = {file.stem: read_table(file) for file in files}
    else:
        with reading(folder / "participations.parquet"):
            facts, series = _measured_again(scenario, tables, log, metrics, simulated_s)
    may = {"allow_plugins": allow_plugins, "allow_outside": allow_outside}
    return (SharedRun if scenario.jobs else Run)(
        log=log,
        **tables,
        scenario=scenario,
        replicate=int(manifest["replicate"]),
        simulated_s=simulated_s,
        facts=facts,
        series=series,
        models=models,
        manifest=manifest,
        own_metrics=_declared_by(manifest),
        jobs={name: load(folder / JOBS / name, **may) for name in scenario.jobs},
    )


def _opened(folder: Path, permissions: Permissions) -> tuple[Scenario, Mapping[str, Any], dict[str, float]]:
    """Return scenario, manifest and figures of a run directory, after comparing its files with the checksums."""
    if not folder.is_dir():
        raise MissingRunError(f"{folder}: no such run directory")
    path = folder / MANIFEST
    unfinished = (folder / UNFINISHED).exists() or any(folder.glob("*.parquet"))
    ended = "a run writes it last, so this one has not ended" if unfinished else "is this a run directory?"
    manifest = read_object(path, f"{path}: no such file; {ended}")
    try:
        home = Path(str(manifest["scenario_file"])).parent
        dict(manifest["fingerprints"])
        int(manifest["replicate"]), int(manifest["seed"]), float(manifest["simulated_s"])
        if not isinstance(manifest["name"], str):
            raise TypeError("its name is not text")  # noqa: TRY301
        document = Document(dict(manifest["scenario"]), str(path), home)
        checksums = dict(manifest[CHECKSUMS])
        if unknown := [name for name in checksums if not _KEPT.fullmatch(name)]:
            raise ValueError(f"{CHECKSUMS} lists {unknown[0]!r}, which no run writes")  # noqa: TRY301
        if checksums.get(MANIFEST) != checksum(manifest, *NOT_COUNTED):
            raise RunError(f"{path} is not the manifest that the run wrote: its checksum is another")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{path} is not the manifest of a run: {type(error).__name__}: {error}") from None
    try:
        scenario = Scenario.of_document(document)
        document.permissions = permissions  # for what is done with it afterwards
    except ScenarioError as error:
        raise RunError(f"{path} holds a scenario that this version cannot read:\n{error}") from None
    metrics = read_figures(folder / METRICS)
    there = (folder / FACTS_FILE, folder / MODELS, *(folder / SERIES_FOLDER).glob("*.parquet"))
    names = {METRICS, *checksums, *(file.relative_to(folder).as_posix() for file in there if file.exists())}
    for name in sorted(names - {MANIFEST}):
        file = folder / name
        if not file.is_file():
            raise MissingRunError(f"{file}: no such file; the run wrote it")
        if checksums.get(name) != _hash_of(file):
            raise RunError(f"{file} is not the file that the run wrote: its checksum in {MANIFEST} is another")
    return scenario, manifest, metrics


def load_one(directory: Path, *, allow_plugins: bool = False, allow_outside: bool = False) -> Run:
    """Read a run directory as `load`; a `RunError` says which directories to name instead of that of several jobs."""
    run = load(directory, allow_plugins=allow_plugins, allow_outside=allow_outside)
    if jobs := ", ".join(str(directory / JOBS / name) for name in run.scenario.jobs):
        raise RunError(
            f"{directory} is a run of several jobs, and this is about one: name its own directory, of {jobs}"
        )
    return run


def _declared_by(manifest: Mapping[str, Any]) -> tuple[OwnMetrics, ...]:
    """Return the scenario's own metrics as a manifest declares them, which cannot be measured again."""
    described = manifest.get("own_metrics", [])
    try:
        return tuple(OwnMetrics("", (Metric(**each),), "both") for each in described)
    except TypeError as error:
        raise RunError(f"{MANIFEST} is not the manifest of a run: its own metrics: {error}") from None


def _hash_of(path: Path) -> str:
    try:
        with open_regular(path, free_bytes()) as opened:  # it is to be read as a whole
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from None


def _measured_again(
    scenario: Scenario, tables: Mapping[str, pl.DataFrame], log: pl.LazyFrame, metrics: dict[str, float], ended_s: float
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Return the facts and the series of a run of an earlier version, which has its metrics alone."""
    if scenario.jobs:
        return facts_of(metrics, {}), {}
    clients, rounds = tables["clients"], tables["rounds"]
    series = series_of(log, clients, scenario, rounds, ended_s)
    if scenario.privacy is not None:
        series["contributions"] = pl.DataFrame([vars(contributions(log, len(clients)))])
    series |= judge_shares(scenario, clients, rounds, metrics, series)
    return facts_of(metrics, series), series


def _table(path: Path, schema: Mapping[str, Any], fingerprint: object, *, whole: bool) -> Any:
    """Read a whole table, or scan it, after comparing it with the schema and with its fingerprint."""
    with reading(path, "the run wrote it"):
        scan = pl.scan_parquet(regular(path), glob=False)
        there = scan.collect_schema()
        fits = {name: (dtype, type(dtype), WIDE.get(type(dtype), dtype)) for name, dtype in schema.items()}
        wrong = [name for name, kinds in fits.items() if there.get(name) not in kinds]
        table = scan if wrong or not whole else scan.collect()
        same = not wrong and has_fingerprint(table, fingerprint)
    if wrong:
        raise RunError(f"{path} is not the table that the run wrote: it lacks {', '.join(wrong)}, or as another type")
    if not same:
        raise RunError(f"{path} is not the table that the run wrote: its fingerprint in {MANIFEST} is another")
    return table
