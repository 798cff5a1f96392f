"""The notebooks of the examples run, and show what they hold."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path("examples/notebooks")
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_NUMBER = re.compile(r"\d+(\.\d+)?e[+-]?\d+|\d+\.\d+")
sys.path.append(str(FOLDER))
EXECUTE: Any = import_module("execute")


def texts(outputs: list[list[dict[str, Any]]]) -> Iterator[tuple[int, str]]:
    """Yield what each cell shows as text; pictures and tables in HTML are tested where they are made.

    Numbers have six digits, and what may be of rounding none: processors differ in them.
    """
    for at, shown in enumerate(outputs, 1):
        for output in shown:
            text = "".join(output.get("text") or output["data"]["text/plain"])
            yield at, _NUMBER.sub(_rounded, text)


def _rounded(found: re.Match[str]) -> str:
    value = float(found[0])
    return f"{value:.6g}" if value > 1e-9 else "small"


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_what_they_hold(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    made = EXECUTE.execute(notebook, path.name)
    assert list(texts(made)) == list(texts(kept)), f"{path} is stale, run: python {FOLDER}/execute.py {path}"
    assert any("text/html" in output["data"] for shown in made for output in shown if "data" in output)


def test_cells_are_run_in_order_and_show_their_last_expression() -> None:
    """As Jupyter has it: what is printed, then the value, nothing for a statement or for None."""
    sources = ["x = 1", "print(x)\nx + 1", "None", "x = 3; x"]
    cells = [{"cell_type": "code", "source": [source]} for source in sources]
    outputs = EXECUTE.execute({"cells": [{"cell_type": "markdown", "source": ["no code"]}, *cells]}, "own")
    assert list(texts(outputs)) == [(2, "1\n"), (2, "2"), (4, "3")]


def test_they_are_listed() -> None:
    index = Path("docs/notebooks.md").read_text(encoding="utf-8")
    assert NOTEBOOKS
    assert all(f"(../{path.as_posix()})" in index for path in NOTEBOOKS)
