"""Checks a class of a user's own: in both engines, another process, a resumed run, and other small federations."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fedsim.common.errors import FedsimError, PluginError, RunError, ScenarioError, StalledError, dotted, line_of, told
from fedsim.common.files import write_text
from fedsim.common.json_files import as_json
from fedsim.learning.problems.problem import has_optimum
from fedsim.log.journal import Journal
from fedsim.population.distributions import distribution
from fedsim.run.files import Provenance
from fedsim.run.load import load
from fedsim.run.repeated import as_text, small_scenario
from fedsim.run.simulate import record, simulate
from fedsim.scenario import let_import_from
from fedsim.scenario.document import Allowance, read_document
from fedsim.scenario.roles import ROLES, registry_of

_Draw = Callable[[Path], None]
_Told = dict[str, str]
_DRAWN = 2
_STEPS = (  # what is tried first: two ways of the same run, and what is wrong where their bytes differ
    ("twice in the process engine", "process", "process", "nothing may be kept in the class or the module"),
    ("in the vectorized engine", "process", "vectorized", _ORDER := "answers must not follow from the order of calls"),
    ("in another process", "vectorized", "elsewhere", "nothing may follow from hash(), the order of a set or the time"),
    ("interrupted and resumed", "vectorized", "resumed", "state() must return what it remembers, restore() take it"),
)


class PluginCheck(NamedTuple):
    """One thing that was tried, its outcome (ok, FAILED, left out), and why, with FILE:LINE where it failed."""

    name: str
    result: str
    message: str


def classes_in(file: Path, name: str = "") -> list[tuple[str, type]]:
    """Import a file, and return its classes, or the one of this name, with their roles, which their methods tell.

    A `RunError` says that there is none; a `PluginError`, that the file fails.
    """
    if not file.is_file() or not file.stem.isidentifier() or file.suffix != ".py":
        raise RunError(f"{file} is not the file of a Python module, such as my_law.py")
    let_import_from([str(file.parent.resolve())])
    try:
        module = import_module(file.stem)
    except BaseException as error:
        raise PluginError(f"{file} cannot be imported: {told(error)}") from error
    if not file.samefile(getattr(module, "__file__", None) or os.devnull):
        raise RunError(f"{file}: another module is called {file.stem!r}; give the file another name")
    classes = list[tuple[str, type]]()
    for key, each in vars(module).items():
        if isinstance(each, type) and each.__module__ == file.stem and name in {"", key}:
            fits = list[str]()
            for role in ROLES:
                with suppress(FedsimError):
                    registry_of(role).find(f"{file.stem}:{key}")
                    fits.append(role)
            if fits:  # a problem may have `select`
                classes.append((max(fits, key=lambda fit: len(vars(registry_of(fit).protocol))), each))
    if not classes:
        raise RunError(f"{file} has no {name or 'class'} with all methods of a role: {', '.join(ROLES)}")
    return classes


def check_class(role: str, cls: type, options: Mapping[str, Any], draw: _Draw) -> Iterator[PluginCheck]:
    """Use a class in many runs, which must not fail and must tell the same; yield how each went.

    `draw` draws the charts of a run directory's own, and raises a `PluginError` if one fails.
    Nothing follows a first run that fails; federations that are nothing for the role are left out, with the reason.
    """
    # Other runs are in other folders: a file that an option names is the same one there.
    files_too = {key: str(Path(each).resolve()) for key, each in options.items() if _is_file(each)}
    named = {"kind": f"{cls.__module__}:{cls.__qualname__}", **options, **files_too}
    with as_file(files("fedsim.ci") / "federations.yaml") as file:
        federations = read_document(file, Allowance())[0].data
    usual = federations.pop("usual")
    if role == "problem":  # with all that it offers
        batch = {"batch_size": 1} if hasattr(cls, "select") else {}
        usual["learning"] = batch | ({"target_above_optimum": 0.1} if has_optimum(cls) else {})
    tried = [(each[0], usual, *each[1:]) for each in _STEPS]
    for name, keys in (*federations.items(), *map(_drawn, range(_DRAWN))):
        tried.append((name, {**usual, **keys}, "process", "vectorized", _ORDER))
    with TemporaryDirectory() as place:
        for name, keys, *ways, why in tried:
            result, failure = "FAILED", ""
            try:
                one, other = (_run(way, role, named, keys, Path(place) / way, draw) for way in ways)
                if wrong := [table for table in one if other.get(table) != one[table]]:
                    failure = f"not the same {', '.join(wrong)}: {why} ({line_of(cls)})"
            except (ScenarioError, StalledError) as error:
                mistakes = getattr(error, "mistakes", ())
                failure = "; ".join(f"{dotted(each.path)}: {each.message}" for each in mistakes) or str(error)
                if keys is not usual and named["kind"] not in failure:
                    result = "left out"
            except BaseException as error:  # noqa: BLE001  it is a user's
                failure = told(error, cls)
            yield PluginCheck(name, result if failure else "ok", failure)
            if failure and name == _STEPS[0][0]:
                return


def _is_file(value: object) -> bool:
    with suppress(OSError, ValueError):  # a text that can be no path
        return isinstance(value, str) and Path(value).is_file()
    return False


def _run(way: str, role: str, named: Mapping[str, Any], keys: Mapping[str, Any], out: Path, draw: _Draw) -> _Told:
    """Run a federation with a class, and return what is told of it; draw the class's chart if it is one."""
    distribution.cache_clear()  # it holds instances
    scenario = small_scenario(role, named, {**keys, "engine": "process" if way == "process" else "vectorized"})
    if way in {"process", "vectorized"}:
        result = simulate(scenario)
        if scenario.charts and way == "vectorized":
            draw(result.save(out))
        return as_text(result)
    if way == "resumed":
        with suppress(KeyboardInterrupt):
            record(scenario, out, Provenance(), progress=_interrupt, journal_of=_Often)
    write_text(file := out.with_name("scenario.yaml"), as_json(scenario.as_written))
    command = [sys.executable, "-P", "-m", "fedsim", "run", str(file), "--out", str(out)]
    command += ["--resume", "--allow-plugins", "--allow-outside", "-q", "--strict"]
    home = Path(str(sys.modules[named["kind"].partition(":")[0]].__file__)).parent
    others = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, cwd=home, env=others, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PluginError(done.stderr.strip())
    return as_text(load(out))


class _Often(Journal):
    def due(self) -> bool:
        return True


def _interrupt(what: str, share: float, _beside: str = "", /) -> None:
    if what == "simulating" and share >= 0.5:
        raise KeyboardInterrupt


def _drawn(seed: int) -> tuple[str, dict[str, Any]]:
    """Return a federation that is drawn, with what is told of it."""
    draw = Random(seed)
    devices, cohort, separation = draw.randint(6, 150), draw.randint(1, 3), draw.randint(0, 1)
    group = {"devices": devices, "weight": {"kind": "pareto", "shape": 1}, "separation": separation}
    words = f"{cohort} of {devices} clients, separation {separation}, seed {seed}"
    return words, {"seed": seed, "population": [group], "server": {"cohort": cohort, "pause": "20m"}}
