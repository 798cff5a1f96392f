"""Executes notebooks as Jupyter would, without it, and keeps what their cells show.

``python examples/notebooks/execute.py [NOTEBOOK...]``: by default all of this folder. The tests do so too, and compare.
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def execute(notebook: dict[str, Any], name: str) -> list[list[dict[str, Any]]]:
    """Run the code cells of a notebook in one namespace.

    Parameters
    ----------
    notebook
        As JSON has it (nbformat 4).
    name
        What tracebacks call it.

    Returns
    -------
    For each code cell its outputs, as a notebook stores them: what it printed, and its last expression.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [
        _run("".join(cell["source"]), f"{name}, cell {at}", namespace, at)
        for at, cell in enumerate((each for each in notebook["cells"] if each["cell_type"] == "code"), 1)
    ]


def _run(source: str, place: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, place, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), place, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(paths: list[Path]) -> None:
    """Execute notebooks and write what their cells show into them."""
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        for number, (cell, outputs) in enumerate(zip(cells, execute(notebook, path.name), strict=True), 1):
            cell |= {"execution_count": number, "outputs": outputs}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or sorted(HERE.glob("*.ipynb")))
