"""What the documentation shows is run: Python examples as doctests, commands in a shell."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsim
from tests import command as command_line
from tests.command import Done, variables
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


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)|`((?:fedsim|tests|scenarios|benchmarks|docs)/[\w./-]+)`")
PLACES = [*PAGES, *sorted(Path("benchmarks").glob("*.md")), *sorted(Path("reports").glob("*.md"))]
PLACES += sorted(Path("examples").glob("*/README.md"))


@pytest.mark.parametrize("page", PLACES, ids=str)
def test_what_a_page_refers_to_is_there(page: Path) -> None:
    referred = [(link, page.parent) if link else (path, Path()) for link, path in LINK.findall(page.read_text("utf-8"))]
    assert [
        there
        for there, folder in referred
        if "://" not in there and not (folder / there).exists() and not (page.parent / there).exists()
    ] == []


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


def in_a_shell(command: str, folder: Path) -> Done:
    """Run a command as a person does, with this Python's programs on the path."""
    tools = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=variables({"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def in_this_process(command: str, folder: Path) -> Done:
    """Call fedsim here; leave other programs, and what a shell does beyond splitting words, to a shell."""
    words = shlex.split(command)
    if words[0] != "fedsim" or set("|&;<>$`").intersection(command):
        return in_a_shell(command, folder)
    return command_line.fedsim(*words[1:], cwd=folder)


SHOWING = [page for page in PAGES if commands(page)]
IN_A_SHELL_ALONE = ("docs/report.md", "docs/sweeps.md", "docs/traces.md")
"""Pages with the longest commands; the tests of reports, sweeps and traces show the same in small."""


@pytest.mark.parametrize(
    ("page", "run"),
    [
        *((page, in_this_process) for page in SHOWING if str(page) not in IN_A_SHELL_ALONE),
        *(pytest.param(page, in_a_shell, marks=pytest.mark.long) for page in SHOWING),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_commands(page: Path, run: Callable[[str, Path], Done], tmp_path: Path) -> None:
    """Every command of a page succeeds, in order, in one folder, and prints the lines that are shown."""
    for name in ("scenarios", "fedsim"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    for command, shown in commands(page):
        done = run(command, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = done.stdout + done.stderr
        for line in shown:
            assert line in printed, f"{command} does not print {line!r} but\n{printed}"
