"""One vocabulary: a public name at the top of a module is defined in one module of the package alone."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import fedsim

ROOT = Path(fedsim.__file__).parent


def public_names(source: str) -> Iterator[str]:
    """Yield the public classes, functions, constants and aliases that a module defines."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def several_homes(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the names that several modules define, with these modules."""
    homes = defaultdict[str, set[str]](set)
    for file in root.rglob("*.py"):
        for name in public_names(file.read_text(encoding="utf-8")):
            homes[name].add(str(file.relative_to(root)))
    return {name: sorted(files) for name, files in homes.items() if len(files) > 1}


def test_every_public_name_has_one_home() -> None:
    assert several_homes() == {}


def test_a_name_with_two_homes_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Round: ...\n_LEAST = 1\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("Round: type = int\n_LEAST = 2\nMOST = 3\n", encoding="utf-8")
    assert several_homes(tmp_path) == {"Round": ["one.py", "two.py"]}
