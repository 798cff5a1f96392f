"""Every place of the schema that takes a kind, or a file: what stands there is guarded and hashed."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import fedsim
from fedsim.common.errors import FedsimError, KeyPath, ScenarioError, dotted
from fedsim.common.registry import _hints
from fedsim.run.preflight import checked
from fedsim.scenario import Scenario
from fedsim.scenario.component import Component, words_of
from fedsim.scenario.roles import ROLES, registry_of
from fedsim.scenario.sweep import WITHOUT_EFFECT
from fedsim.trials.worker import inputs_of
from tests.ci.test_pytest_plugin import run_pytest
from tests.command import COMMANDS, REPOSITORY, limited
from tests.command import fedsim as call
from tests.scenario.places import Json, places

STRANGER = "stranger_of_places"
THING = f"{STRANGER}:Thing"
MOST_S = 20.0
_PACKAGE = Path(fedsim.__file__).parent


def _own(cls: type[Any]) -> Iterator[str]:
    yield cls.__name__
    for below in type.__subclasses__(cls):
        yield from _own(below)


OWN = {*_own(Component)}


def of_kinds(thing: Any) -> list[tuple[KeyPath, Any]]:
    return places(lambda name, _: thing if name in OWN else None)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module that says when it is imported, which the working folder and the path lead to."""
    (tmp_path / f"{STRANGER}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert STRANGER not in sys.modules
    assert not (tmp_path / "imported").exists()


def put(folder: Path, data: Any, name: str = "case.fedsim.yaml") -> Path:
    (folder / name).write_text(json.dumps(data))
    return folder / name


def refused(file: Path, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file, overrides)
    return str(caught.value)


def test_every_place_that_takes_a_kind_is_guarded_and_hashed(stranger: Path) -> None:
    """A list by hand had forgotten joins, leaves, links and shocks."""
    found = of_kinds({"kind": THING})
    assert len(found) > 50
    for path, data in found:
        file, where = put(stranger, data), dotted((*path, "kind"))
        assert f"error: {where}: {THING!r} would run code; if you trust" in refused(file), path
        allowed = Scenario.load(file, allow_plugins=True)
        assert [at for at, word in words_of(allowed) if word == THING] == [(*path, "kind")]
        assert list(inputs_of(allowed).modules) == [STRANGER], path


def test_a_bare_word_is_guarded_wherever_it_is_a_kind(stranger: Path) -> None:
    guarded = set[str]()
    for path, data in of_kinds(THING):
        told = refused(put(stranger, data))
        if f"error: {dotted(path)}: {THING!r} would run code" in told:
            guarded.add(str(path[-1] if isinstance(path[-1], str) else path[-2]))
    assert guarded == {  # elsewhere a bare word is a length or a number, and is none
        *("availability", "selection", "problem", "optimizers", "server", "mechanism", "matching", "metrics", "charts")
    }


def test_values_of_sweeps_and_overrides_are_guarded_at_every_place(stranger: Path) -> None:
    for path, data in of_kinds({"kind": THING}):
        written = ".".join(map(str, path))
        plain = {"stop": {"rounds": 2}, "population": [{"devices": 3}], "server": {"cohort": 1}}
        if path[0] != "jobs":
            values = {written: [{"kind": THING}]}
            tried: dict[str, Json] = {"sweep.grid": {"sweep": {"grid": values}}, "choose": {"choose": values}}
            for of, varied in tried.items():
                told = refused(put(stranger, plain | varied))
                kept = path[0] in WITHOUT_EFFECT and f"{written!r} cannot be swept" in told
                assert kept or f"{of}.{written}[0].kind: {THING!r} would run code" in told, path
        put(stranger, data, "base.yaml")
        assert "would run code" in refused(put(stranger, {"extends": "base.yaml"}))
        good = json.loads(json.dumps(data).replace(json.dumps({"kind": THING}), "null"))
        assert "would run code" in refused(put(stranger, good), f"{written}={json.dumps({'kind': THING})}"), path
        if "jobs" in data:
            continue
        with pytest.raises(ScenarioError, match="would run code"):
            Scenario.load(put(stranger, plain)).with_values(data)


def test_only_lists_of_a_sweep_hold_what_the_models_do_not_know() -> None:
    """What is typed is guarded by its type; a new place for anything must be asked for what it holds."""
    anything = {path for path, _ in places(lambda _, node: True if node.keys() <= {"title"} else None)}
    opened = {
        name for name, each in Scenario.model_json_schema()["$defs"].items() if each.get("additionalProperties") is True
    }
    assert (anything, opened) == (set(), OWN)
    text = json.dumps(Scenario.model_json_schema())
    assert text.count('"additionalProperties": {"items": {}') == len(["grid", "zip", "choose", "tune"])
    assert text.count('"additionalProperties": true') == len(OWN) + len(["exclude", "arguments"])


def test_words_with_a_colon_are_fine_where_they_are_no_kind(stranger: Path) -> None:
    text = f"name: '{THING}'\nquestion: '{THING}'\ndescription: '{THING}'\n"
    text += "stop: {rounds: 2}\nserver: {cohort: 1}\nshocks: [{name: 'a:b', every: 1d, length: 1h}]\n"
    text += "population: [{name: 'a:b', devices: 2, weight: {kind: column, file: 'a:b', column: 'p:q'}}]\n"
    text += "sweep: {zip: {name: ['a:b', 'c:d'], server.cohort: [1, 2]}}\n"
    text += "learning: {problem: {kind: torch, data: {kind: npz, path: 'a:b'}}, optimizers: [fedavg], step_size: 1}\n"
    (stranger / "case.fedsim.yaml").write_text(text)
    (stranger / "a:b").write_text("p:q\n1\n2\n")
    scenario = Scenario.load("case.fedsim.yaml")
    assert (scenario.modules(), list(scenario.files())) == ([], ["a:b"])


def _commands() -> dict[str, list[str]]:
    """Return the arguments of every command that reads a scenario and may be allowed to run code."""
    further = {"solve": ["--until", "rounds.count > 1", "--to", "9"], "design": ["--out", "new.yaml"]}
    asking = {name: {each.name for each in command.params} for name, command in COMMANDS.commands.items()}  # type: ignore[attr-defined]
    named = {name for name, asked in asking.items() if "allow_plugins" in asked} - {"report", "compare"}
    return {name: [*further.get(name, [])] for name in sorted(named)}


@pytest.mark.parametrize("command", _commands())
def test_no_command_imports_what_a_scenario_names(stranger: Path, command: str) -> None:
    data = {"stop": {"rounds": 2}, "population": [{"devices": 3, "joins": {"kind": THING}}], "server": {"cohort": 1}}
    put(stranger, data)
    done = call(command, "case.fedsim.yaml", *_commands()[command])
    told = done.stderr + done.stdout  # replay tells of a file beside others
    assert (done.returncode, "population[0].joins.kind: 'stranger_of_places:Thing' would run code" in told) == (2, True)


@pytest.mark.long
def test_neither_python_nor_pytest_imports_it(stranger: Path) -> None:
    data = {"stop": {"rounds": 2}, "population": [{"devices": 3, "leaves": {"kind": THING}}], "server": {"cohort": 1}}
    file = put(stranger, data)
    for function in (fedsim.simulate, fedsim.sweep, fedsim.Scenario.load):
        with pytest.raises(ScenarioError, match=r"leaves.kind: .* would run code"):
            function(file)
    code, told = run_pytest(stranger, PYTHONPATH=str(REPOSITORY))
    assert (code, "leaves.kind: 'stranger_of_places:Thing' would run code" in told) == (1, True), told


def test_a_finished_run_is_read_without_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its page, nor what Python reads of it, imports what its scenario names."""
    data = {
        "stop": {"rounds": 2},
        "population": [{"devices": 3, "joins": {"kind": "law_of_places:It"}}],
        "server": {"cohort": 1, "selection": "sel_of_places:It"},
    }
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "law_of_places.py").write_text("class It:\n    def quantile(self, p):\n        return p\n")
    select = "import numpy as np\nclass It:\n    def select(self, request, candidates):\n"
    select += "        return np.flatnonzero(candidates.all_eligible())[:request.count]\n"
    (tmp_path / "sel_of_places.py").write_text(select)
    put(tmp_path, data)
    done = call("run", "case.fedsim.yaml", "--out", "run", "--allow-plugins", "-q")
    assert done.returncode == 0, done.stderr
    for name in ("law_of_places", "sel_of_places"):
        del sys.modules[name]
        (tmp_path / f"{name}.py").write_text(f"open('imported', 'a').write({name!r})\n")
    for command in ("report run --out r.html", "compare run run", "export schedule run --out s.json"):
        done = call(*command.split())
        assert done.returncode == 0, done.stderr
    assert fedsim.load("run").scenario.permissions.plugins is False
    assert not (tmp_path / "imported").exists()


def test_code_is_imported_behind_few_doors() -> None:
    """An option that is imported must have the type `NameOfCode`; a file that imports by name is looked at here."""
    found = {
        path for path in _PACKAGE.rglob("*.py") if re.search(r"import_module|__import__|\.load\(\)", path.read_text())
    }
    doors = {
        *("__init__.py", "common/registry.py", "common/later.py", "ci/plugin_checks.py", "trials/own_modules.py"),
        *("learning/problems/torch_module.py", "learning/problems/softmax_regression.py", "scenario/roles.py"),
        "bridges/trackers.py",
    }
    assert {str(path.relative_to(_PACKAGE)) for path in found} == doors


def of_files() -> list[tuple[KeyPath, Json, str]]:
    """Return every place of a file, with the data and the name to put there, options of what comes with fedsim too."""

    def named(_name: str, node: Json) -> str | None:
        return "FILE" if node.get("format") == "path" else None

    found = places(named)
    learning: Json = {"optimizers": ["fedavg"], "step_size": 0.1}
    for role in ROLES:
        for kind in registry_of(role).built_in:
            cls: Any = registry_of(role)[kind]
            for option, hint in _hints(cls).items() if role == "problem" else ():
                schema = TypeAdapter(hint).json_schema() if option in {"data", "path", "file"} else {}
                for path, data in places(named, schema):
                    problem = {"problem": {"kind": kind, option: data}}
                    around = {"stop": {"rounds": 2}, "population": [{"devices": 3}], "server": {"cohort": 1}}
                    found.append((("learning", "problem", option, *path), around | {"learning": learning | problem}))
    return [(path, data, dotted(path)) for path, data in found]


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "nothing": lambda _: None,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link outside": lambda path: path.symlink_to("/etc/hostname"),
}


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("outside", [False, True])
def test_every_file_is_opened_only_if_it_is_one(tmp_path: Path, what: str, outside: bool) -> None:
    """A FIFO as the model to start from was waited for, for ever."""
    SPECIAL[what](tmp_path / "FILE")
    found = of_files()
    assert {"learning.start.path", "population[0].joins.file", "learning.problem.data.path"} <= {
        at for _, _, at in found
    }
    for path, data, at in found:
        with limited(MOST_S), pytest.raises(FedsimError) as caught:
            checked(Scenario.load(put(tmp_path, data), allow_outside=outside))
        told = str(caught.value)
        if "needs PyTorch" in told and find_spec("torch") is None:
            continue
        assert f"{path[-2]}: " in told or f"{path[-2]}.{path[-1]}: " in told, (at, told)
        if what in {"a device", "a link outside"} and not outside:
            assert f"{at}: 'FILE' is outside the scenario's folder" in told


def test_every_file_is_hashed(tmp_path: Path) -> None:
    for _, data, at in of_files():
        (tmp_path / "FILE").write_text(at)
        scenario = Scenario.load(put(tmp_path, data))
        assert "FILE" in scenario.files(), at  # a log has another file beside its roster
        assert str(tmp_path / "FILE") in inputs_of(scenario).files, at


def test_options_of_a_class_of_ones_own_are_hashed_where_they_name_something(stranger: Path) -> None:
    (stranger / "table.csv").write_text("1")
    data: Json = {"stop": {"rounds": 2}, "population": [{"devices": 3}], "server": {"cohort": 1}}
    inner = {
        "kind": THING,
        "inner": [{"kind": "other_of_places:It"}],
        "table": "table.csv",
        "words": "x" * 500,
        "no": "",
    }
    scenario = Scenario.load(put(stranger, data | {"metrics": [inner]}), allow_plugins=True)
    assert ({*scenario.modules()}, list(scenario.files())) == ({STRANGER, "other_of_places"}, ["table.csv"])
    inner["table"] = "../elsewhere.csv"
    with pytest.raises(ScenarioError, match=r"metrics\[0\].table: '../elsewhere.csv' is outside"):
        Scenario.load(put(stranger, data | {"metrics": [inner]}), allow_plugins=True)
