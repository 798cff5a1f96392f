"""A run has one shape: the classes that held parts of it before are gone."""

import ast
from pathlib import Path

import fedsim

GONE = {
    *("Recorded", "Log", "LogView", "Tally", "Gathered", "Ready", "Outcome"),
    *("Finished", "FinishedRun", "Recording", "PageData"),
}


def test_no_other_class_is_a_run() -> None:
    defined = {
        node.name
        for file in Path(fedsim.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert not GONE & defined
    assert "Run" in defined


def test_a_result_is_a_run() -> None:
    from fedsim.run.run import Run

    assert fedsim.Result is Run
