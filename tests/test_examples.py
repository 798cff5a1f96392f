"""Examples that run with what CI has installed anyway; `.ci/frameworks` makes environments for the others."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedsim
from tests.conftest import LIMIT_S
from tests.consoles import consoles

EXAMPLES = Path("examples")


def test_each_example_is_run_somewhere() -> None:
    by_script = Path(".ci/frameworks").read_text(encoding="utf-8")
    found = {file.parent.name for file in EXAMPLES.glob("*/README.md")}
    assert {each for each in found if f"  example {each} " not in by_script} == {
        "natural-data",
        "pytorch",
    }  # these by tests


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
    home = str(Path(fedsim.__file__).parents[1])
    blocks = consoles.BLOCK.finditer((folder / "README.md").read_text(encoding="utf-8"))
    for each in (each for block in blocks if block["kind"] == "console" for each in consoles.commands(block["text"])):
        program, *arguments = shlex.split(each.text)
        start = {"fedsim": [sys.executable, "-m", "fedsim"], "python": [sys.executable]}[program]
        done = subprocess.run(
            [*start, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": home},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout
    assert said.startswith("200 rounds, 2379 reports of 37 of 40 clients\n")
