"""Rooms in one direction: every import of the package, wherever in a file, leads to a room that comes before."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import fedsim
from fedsim.scenario.roles import ROLES

ROOT = Path(fedsim.__file__).parent
ROOMS = [
    "common",
    "scenario",
    "population",
    "availability",
    "traces",
    "selection",
    "log",
    "simulation",
    "measure",
    "theory",
    "privacy",
    "learning",
    "run",
    "trials",
    "pages",
    "ci",
    "bridges",
    "cli",
]
"""In the order in which the data pass them, but for `common`, which all use."""

EXCEPTIONS = {("fedsim.run.run", "pages"), ("fedsim.trials.sweep", "pages")}
EXCEPTIONS |= {("fedsim.scenario.roles", home.split(".")[1]) for home in ROLES.values()}
"""Whoever holds a run, or a sweep in a notebook, looks there for its page, and a run directory is complete with its
page. These are the two places where a room asks a later one, in the midst of a method; pages take runs, so that they
alone may close a circle. And what a scenario may name is read from the classes that later rooms register."""


class Import(NamedTuple):
    """One import: the module that it stands in, the line, and the module that it names."""

    by: str
    line: int
    of: str


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return every module of the package, by its dotted name."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = (root.name, *file.relative_to(root).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, source: str, known: dict[str, Path]) -> Iterator[Import]:
    """Yield the imports of one module that lead into the package: lazy ones and those for type checkers included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} is relative"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            named = [each if each in known else str(node.module) for each in named]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a registry's "module:Class"
            module, colon, _ = node.value.partition(":")
            named = [module] if colon and module in known else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "registry_of":  # which imports the role's home
            named = [
                ROLES[each.value].partition(":")[0]
                for each in node.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
        else:
            continue
        yield from (Import(name, node.lineno, each) for each in named if each.partition(".")[0] == ROOT.name)


def room(module: str) -> str:
    """Return the room of a module; that of the root's own files is empty."""
    return module.split(".")[1] if module.count(".") and module.split(".")[1] in ROOMS else ""


def upward(found: Iterator[Import]) -> list[str]:
    """Return the imports that lead to a room further down the way of the data."""
    return [
        f"{each.by}:{each.line} imports {each.of}"
        for each in found
        if room(each.by) and room(each.of) and ROOMS.index(room(each.of)) > ROOMS.index(room(each.by))
        if (each.by, room(each.of)) not in EXCEPTIONS
    ]


def every_import() -> Iterator[Import]:
    known = modules()
    for name, file in known.items():
        yield from imports(name, file.read_text(encoding="utf-8"), known)


def test_every_room_has_its_place() -> None:
    folders = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    assert folders == set(ROOMS)


def test_the_design_page_shows_the_rooms_in_their_order() -> None:
    page = (ROOT.parent / "docs" / "design.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE) == ROOMS


def test_the_root_holds_next_to_nothing() -> None:
    doors = {"schedules.py", "flower.py", "jax_privacy.py", "pfl.py"}  # what people import: names from `bridges`
    assert {file.name for file in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "_version.py", *doors}
    for name in doors:
        body = ast.parse((ROOT / name).read_text(encoding="utf-8")).body
        assert {type(each) for each in body} == {ast.Expr, ast.ImportFrom, ast.Assign}, name


def test_every_import_leads_to_a_room_that_comes_before() -> None:
    assert upward(every_import()) == []


def test_no_exception_is_left_over() -> None:
    used = {(each.by, room(each.of)) for each in every_import()}
    assert used >= EXCEPTIONS


@pytest.mark.parametrize(
    "source",
    [
        "from fedsim.pages import page",
        "def later():\n    import fedsim.pages.page",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fedsim.cli.main import app",
        "KNOWN = {'page': 'fedsim.pages.page:Page'}",
        "kind = registry_of('optimizer').find('fedavg')",
    ],
)
def test_an_import_upwards_is_found_wherever_it_stands(source: str) -> None:
    assert len(upward(imports("fedsim.scenario.units", source, modules()))) == 1


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules()
    edges: dict[str, set[str]] = {name: set() for name in known}
    for each in every_import():
        if (each.by, room(each.of)) in EXCEPTIONS:
            continue
        if not known[each.of].name.startswith("__init__") or not each.by.startswith(each.of):
            edges[each.by].add(each.of)
    assert circles(edges) == []


def test_jobs_are_known_to_few() -> None:
    """Others take a scenario's servers one by one (`Scenario.servers`), and a run's figures as it gives them."""
    importing = {each.by for each in every_import() if each.of.endswith(".jobs")}
    assert len(importing) <= 5
    asks = re.compile(r"\.(jobs|of_job)\b|scenario\.beside")
    asking = {name for name, file in modules().items() if asks.search(file.read_text(encoding="utf-8"))}
    others = {"measure.limits", "privacy.independence", "run.jobs", "run.run", "simulation.jobs", "simulation.sharing"}
    assert asking == importing | {f"fedsim.{each}" for each in (*others, "theory.available_prediction")}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected parts of a graph that have more than one node."""
    reach = {start: _reached(start, edges) for start in edges}
    found = {frozenset({start, *(other for other in reach[start] if start in reach[other])}) for start in edges}
    return sorted(sorted(part) for part in found if len(part) > 1)


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = edges[todo.pop()] - seen
        seen |= new
        todo += new
    return seen
