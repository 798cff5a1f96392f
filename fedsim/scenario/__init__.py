"""The scenario file: its format as pydantic models, its reading with positions, overrides and JSON Schema."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedsim.common.arguments import short_repr
from fedsim.common.errors import ScenarioError
from fedsim.scenario.models import Scenario, scenario_schema
from fedsim.scenario.permissions import Permissions
from fedsim.scenario.starter import starter

__all__ = [
    "Scenario",
    "as_scenario",
    "import_folders",
    "let_import_from",
    "open_scenario",
    "scenario_schema",
    "starter",
]


def open_scenario(
    file: str | Path, permissions: Permissions, overrides: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """Read a scenario with what it is allowed, which includes to find modules beside it, as `Scenario.load` does."""
    let_import_from(import_folders(file, permissions))
    may = {"allow_plugins": permissions.plugins, "allow_outside": permissions.outside}
    return Scenario.load(file, overrides, seed, **may)


def as_scenario(given: Scenario | str | os.PathLike[str]) -> Scenario:
    """Return the scenario that is given, or that of the file whose name is given.

    A `ScenarioError` has every mistake, and all that it asks for and may not do.
    """
    if isinstance(given, str | os.PathLike):
        return Scenario.load(os.fspath(given))
    if not isinstance(given, Scenario):
        raise TypeError(f"scenario must be a Scenario or the name of a scenario file, not {short_repr(given)}")
    if mistakes := given.not_permitted():
        raise ScenarioError(mistakes)
    return given


def import_folders(file: str | Path, permissions: Permissions) -> tuple[str, ...]:
    """Return the working folder and that of the scenario, if it may name modules; else nothing."""
    if not permissions.plugins:
        return ()
    return tuple(dict.fromkeys((str(Path.cwd()), str(Path(file).parent.resolve()))))


def let_import_from(folders: Iterable[str]) -> None:
    """Let ``kind: module:Name`` find modules in these folders, after all others."""
    sys.path += [folder for folder in folders if folder not in sys.path]
