"""What the documentation shows is run: Python examples as doctests, commands in a shell."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedsim
from tests.conftest import LIMIT_S

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
COMMANDS = re.compile(r"```console\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_python_examples(page: Path) -> None:
    failed, _ = doctest.testfile(str(page.resolve()), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_package_docstring() -> None:
    assert doctest.testmod(fedsim).attempted > 0
    assert doctest.testmod(fedsim).failed == 0


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Return the commands (lines with ``$``) of a page, each with the lines it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for block in COMMANDS.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and line.strip():
                found[-1][1].append(line)
    return found


def test_there_are_commands_to_run() -> None:
    assert any(commands(page) for page in PAGES)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=str)
def test_commands(page: Path, tmp_path: Path) -> None:
    """Every command of a page succeeds, in order, in one folder, and prints the lines that are shown."""
    for name in ("scenarios", "fedsim"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    for command, shown in commands(page):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = done.stdout + done.stderr
        for line in shown:
            assert line in printed, f"{command} does not print {line!r} but\n{printed}"
