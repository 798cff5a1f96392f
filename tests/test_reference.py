"""The pages of docs/reference are made of the package, and all that they list is described there."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.append("docs")
reference: Any = import_module("reference")


def test_the_pages_are_those_of_today() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in Path("docs/reference").glob("*.md")}
    assert found == reference.pages(), "stale, run: make schema"


def test_every_key_is_described() -> None:
    """But for `kind`, which is what the row is about."""
    models = reference.all_keys().models
    keys = {f"{name}.{key}": part for name, each in models.items() for key, part in each.get("properties", {}).items()}
    assert len(keys) > 300
    assert [name for name, part in keys.items() if not name.endswith(".kind") and not part.get("description")] == []


@pytest.mark.parametrize(("text", "shown"), [("a | b\n c", "a \\| b c"), ("plain", "plain")])
def test_a_cell_is_one_line_without_bars(text: str, shown: str) -> None:
    assert reference.cell(text) == shown


def test_what_follows_two_colons_is_code() -> None:
    assert reference.prose("The step::\n\n    x = 1\n\nAnd ``y``.") == "The step:\n\n```text\nx = 1\n```\n\nAnd `y`."
