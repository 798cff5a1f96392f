"""Examples that run with what CI has installed anyway; `.ci/frameworks` makes environments for the others."""

import shutil
from pathlib import Path

import pytest

from tests.consoles import consoles

EXAMPLES = Path("examples")


def test_each_example_is_run_somewhere() -> None:
    by_script = Path(".ci/frameworks").read_text(encoding="utf-8")
    found = {file.parent.name for file in EXAMPLES.glob("*/README.md")}
    assert {each for each in found if f"  example {each} " not in by_script} == {"pytorch"}


def test_no_example_wants_anything_from_a_registry() -> None:
    """Flower would install it for every run, from PyPI, where fedsim's name may be somebody else's."""
    assert "\ndependencies = []\n" in (EXAMPLES / "flower" / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.extras
def test_the_loop_in_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    folder, said = tmp_path / "examples" / "pytorch", ""
    for block in consoles.BLOCK.finditer((folder / "README.md").read_text(encoding="utf-8")):
        for command in consoles.commands(block["text"]):
            code, said = consoles.in_a_shell(command.text, folder)
            assert code == 0, said
    assert said.startswith("200 rounds, 2375 reports of 37 of 40 clients\n")
