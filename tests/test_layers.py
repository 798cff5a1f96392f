"""Layers point one way: nothing upstream imports anything downstream."""

import ast
from pathlib import Path

import fedsim

LAYERS = [
    "common",
    "log",
    "scenario",
    "population",
    "availability",
    "traces",
    "selection",
    "theory",
    "simulation",
    "analysis",
    "learning",
    "report",
]
ROOT = Path(fedsim.__file__).parent


def imported(file: Path) -> set[str]:
    """Return the packages of fedsim that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("fedsim.")}
    return found


def test_nothing_upstream_imports_anything_downstream() -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for place, layer in enumerate(LAYERS)
        for file in sorted((ROOT / layer).rglob("*.py"))
        for name in sorted(imported(file))
        if name in LAYERS[place + 1 :]
    ]
    assert wrong == []
