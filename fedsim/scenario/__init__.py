"""The scenario file: its format as pydantic models, its reading with positions, overrides and JSON Schema."""

import copy
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from fedsim.common.arguments import short_repr
from fedsim.common.errors import RunError, ScenarioError
from fedsim.common.files import pasteable
from fedsim.common.messages import as_yaml
from fedsim.scenario.document import Allowance, Document, document_of_text
from fedsim.scenario.loading import of_paper, shipped, validate
from fedsim.scenario.permissions import Permissions
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.schema import scenario_schema

__all__ = [
    "GivenScenario",
    "Scenario",
    "as_scenario",
    "open_scenario",
    "read_resolved",
    "scenario_schema",
    "shipped",
    "starter",
]
GivenScenario: TypeAlias = Scenario | Mapping[str, Any] | str | os.PathLike[str]
"""What stands for a scenario in Python: itself, a mapping with its keys, or the name of its file."""
_DEVICES, _DAYS = 12, 7  # of the trace of a starter
_DAY_S, _HOUR_S = 86_400, 3_600


def open_scenario(
    file: str | Path, permissions: Permissions, overrides: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """Read a scenario with what it is allowed, which includes to find modules beside it, as `Scenario.load` does."""
    let_import_from(import_folders(file, permissions))
    may = {"allow_plugins": permissions.plugins, "allow_outside": permissions.outside}
    return Scenario.load(file, overrides, seed, **may)


def as_argument(file: str) -> str:
    """Return a scenario file as it may stand in a command: ``paper/NAME`` for one that comes with fedsim."""
    path, words = Path(file), pasteable(file)
    ours = Path(words).is_absolute() and path in of_paper()
    return f"paper/{path.name.removesuffix('.fedsim.yaml')}" if ours else words


def read_resolved(path: Path, record: Mapping[str, Any]) -> Scenario:
    """Build the resolved scenario in a manifest or `sweep.json`, which imports nothing of what it names.

    Raises
    ------
    RunError
        It is none that this version knows.
    """
    try:
        return validate(Scenario, Document(record.get("scenario")), [])
    except ScenarioError as error:
        raise RunError(f"{path}: its scenario cannot be read: {error.mistakes[0]}") from None


def as_scenario(given: GivenScenario, *, several: bool = False) -> Scenario:
    """Return the scenario that is given, or that of a file or of a mapping; of `several` servers only if these fit.

    A `ScenarioError` has every mistake, and all that it asks for and may not do.
    """
    if isinstance(given, str | os.PathLike):
        given = Scenario.load(given)
    elif isinstance(given, Mapping):
        given = Scenario.of_document(Document(copy.deepcopy(dict(given)), folder=Path.cwd()))
    elif not isinstance(given, Scenario):
        what = "a Scenario, a mapping with the keys of one, or the name of a scenario file"
        raise TypeError(f"scenario must be {what}, not {short_repr(given)}")
    elif mistakes := given.not_permitted():
        raise ScenarioError(mistakes)
    return given if several else given.check_one()


def import_folders(file: str | Path, permissions: Permissions) -> tuple[str, ...]:
    """Return the working folder and that of the scenario, if it may name modules; else nothing."""
    if not permissions.plugins:
        return ()
    return tuple(dict.fromkeys((str(Path.cwd()), str(Path(file).parent.resolve()))))


def let_import_from(folders: Iterable[str]) -> None:
    """Let ``kind: module:Name`` find modules in these folders, after all others."""
    sys.path += [folder for folder in folders if folder not in sys.path]


def starter(name: str, template: str = "phones") -> str:
    """Return the text of a small scenario, called `name`, that runs in seconds; see ``starters`` for the templates."""
    text = (files("fedsim.scenario") / "starters" / f"{template}.yaml").read_text(encoding="utf-8")
    return re.sub(r"\bNAME((?:\.csv)?)", lambda match: _plain(name + match[1]), text)


def checked_text(made: dict[str, Any] | str, path: Path) -> str:
    """Return the YAML text of a scenario that a command has made, to be written to `path`.

    It is read again as from there: a `ScenarioError` has every mistake, and nothing is written then.
    """
    text = made if isinstance(made, str) else as_yaml(made) + "\n"
    document, mistakes = document_of_text(text, path, Allowance())
    Scenario.of_document(document, mistakes)
    return text


def _plain(value: str) -> str:
    """Write a text as YAML: as it is, or in quotes where it would mean something else."""
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", value) and value.lower() not in {"true", "false", "null"}
    return value if plain else json.dumps(value)


def starter_trace() -> str:
    """Return a recorded week as CSV, for the template ``trace``: made up, a dozen phones that charge at night.

    Phone k is plugged in some minutes later than phone k - 1, leaves one night out, and is unplugged around six.
    """
    lines = ["device,start_s,end_s,condition"]
    for device in range(_DEVICES):
        for day in range(_DAYS):
            if (device + day) % _DAYS:
                start_s = day * _DAY_S + 21 * _HOUR_S + 600 * device + 240 * ((3 * device + 5 * day) % 11)
                end_s = (day + 1) * _DAY_S + 5 * _HOUR_S + 300 * ((7 * device + 2 * day) % 13)
                lines.append(f"phone-{device},{start_s},{end_s},charging")
    return "\n".join(lines) + "\n"
