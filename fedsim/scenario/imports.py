"""Reading a scenario with what it is allowed, and where modules of the user's own are found if they are."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedsim.scenario import Scenario
from fedsim.scenario.permissions import Permissions


def open_scenario(
    file: str | Path, permissions: Permissions, overrides: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """Read a scenario with what it is allowed, which includes to find modules beside it.

    Raises
    ------
    ScenarioError
        With every mistake.
    """
    let_import_from(import_folders(file, permissions))
    may = {"allow_plugins": permissions.plugins, "allow_outside": permissions.outside}
    return Scenario.load(file, overrides, seed, **may)


def import_folders(file: str | Path, permissions: Permissions) -> tuple[str, ...]:
    """Return the working folder and that of the scenario, if it may name modules; else nothing."""
    if not permissions.plugins:
        return ()
    return tuple(dict.fromkeys((str(Path.cwd()), str(Path(file).parent.resolve()))))


def let_import_from(folders: Iterable[str]) -> None:
    """Let ``kind: module:Name`` find modules in these folders, after all others."""
    sys.path += [folder for folder in folders if folder not in sys.path]
