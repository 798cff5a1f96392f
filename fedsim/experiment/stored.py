"""A run directory read back as the result that was written there."""

import os
from pathlib import Path
from typing import Any

import polars as pl

from fedsim.common.arguments import path_of
from fedsim.common.errors import RunError, ScenarioError
from fedsim.common.files import read_table
from fedsim.common.json_files import read_figures, read_object
from fedsim.experiment.outcome import ALWAYS, AT_TIMES
from fedsim.experiment.result import Result
from fedsim.experiment.run_directory import MANIFEST, METRICS, UNFINISHED
from fedsim.log import fingerprint
from fedsim.scenario import Scenario
from fedsim.scenario.document import Document
from fedsim.scenario.permissions import Permissions


def load(directory: str | os.PathLike[str], *, allow_plugins: bool = False, allow_outside: bool = False) -> Result:
    """Read a run directory: the same result as `fedsim.simulate` gave, tables, figures and scenario.

    Nothing is run or imported for it. The two permissions are for what is done with ``result.scenario`` afterwards.

    Parameters
    ----------
    directory
        As ``fedsim run`` or `Result.save` wrote it. Files that the scenario names are looked for beside the scenario
        file that the manifest names, or in the working folder if it names none.
    allow_plugins, allow_outside
        As in `Scenario.load`.

    Raises
    ------
    RunError
        If it is no run directory, its run has not ended, or a file is missing, damaged, or not the one that the run
        wrote; the message names it.
    """
    folder = path_of("directory", directory, "a run directory")
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run directory")
    path = folder / MANIFEST
    unfinished = (folder / UNFINISHED).exists() or any(folder.glob("*.parquet"))
    ended = "a run writes it last, so this one has not ended" if unfinished else "is this a run directory?"
    manifest = read_object(path, f"{path}: no such file; {ended}")
    try:
        prints, home = dict(manifest["fingerprints"]), Path(str(manifest["scenario_file"])).parent
        replicate, simulated_s = int(manifest["replicate"]), float(manifest["simulated_s"])
        document = Document(dict(manifest["scenario"]), str(path), home)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is not the manifest of a run: {type(error).__name__}: {error}") from None
    try:
        scenario = Scenario.of_document(document)
    except ScenarioError as error:
        raise RunError(f"{path} holds a scenario that this version cannot read:\n{error}") from None
    document.permissions = Permissions(allow_plugins, allow_outside)
    names = [*ALWAYS, *(name for name in AT_TIMES if name in prints)]
    tables: dict[str, Any] = {name: _table(folder / f"{name}.parquet", prints.get(name)) for name in names}
    metrics = read_figures(folder / METRICS)
    return Result(**tables, scenario=scenario, replicate=replicate, metrics=metrics, simulated_s=simulated_s)


def _table(path: Path, known: object) -> pl.DataFrame:
    """Read a table, and see that it is the one with this fingerprint."""
    table = read_table(path, "the run wrote it")
    if fingerprint(table) != known:
        raise RunError(f"{path} is not the table that the run wrote: its fingerprint in {MANIFEST} is another")
    return table
