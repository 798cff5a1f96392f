"""A run directory read back as the result that was written there."""

import os
from typing import Any

from fedsim.common.arguments import path_of
from fedsim.common.files import read_table
from fedsim.experiment.finished import open_finished
from fedsim.experiment.result import Result
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
    found = open_finished(folder)
    found.document.permissions = Permissions(allow_plugins, allow_outside)
    tables: dict[str, Any] = {name: read_table(folder / f"{name}.parquet", "the run wrote it") for name in found.tables}
    return Result(
        **tables,
        scenario=found.scenario,
        replicate=int(found.manifest["replicate"]),
        metrics=found.metrics,
        simulated_s=float(found.manifest["simulated_s"]),
    )
