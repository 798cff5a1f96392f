"""Scripts beside the package still find what they import from it."""

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDERS = ("benchmarks", "docs", "examples", "reports", "scenarios")
SCRIPTS = [file for folder in FOLDERS for file in sorted(Path(folder).rglob("*.py"))]


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Yield what a script imports from fedsim: modules and names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "fedsim":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_every_import_is_there(script: Path) -> None:
    """What stands on a framework that is not installed is run by `.ci/frameworks`."""
    names = list(imported(script.read_text(encoding="utf-8")))
    try:
        modules = {module: import_module(module) for module, _ in names}
    except ModuleNotFoundError as error:
        if error.name not in {"flwr", "jax_privacy", "pfl"}:
            raise
        pytest.skip(f"{error.name} is not installed")
    missing = [
        f"{module}.{name}"
        for module, name in names
        if not hasattr(modules[module], name) and find_spec(f"{module}.{name}") is None
    ]
    assert missing == []
