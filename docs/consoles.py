"""The consoles of pages: runs their commands in a shell, in order, and writes beneath each what it prints.

``python docs/consoles.py PAGE...`` does so. Blocks with ``title="NAME"`` are files, and are written before the commands
that follow them. Output with lines that end in ``...`` is shortened on purpose and left as it is, since only its
author knows what matters; the tests check it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LINKED = ("scenarios", "fedsim", "docs", "examples")
"""Folders of the repository that commands may name."""
BLOCK = re.compile(r'^```(?P<kind>[\w-]+)(?: title="(?P<name>[^"]+)")?\n(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE)
PROGRESS = re.compile(r"^[a-z][^:\n]*: \d+%(, [^\n]*)?\n", re.MULTILINE)
"""What off a terminal stands in the place of a bar that vanishes."""
LIMIT_S = 240.0


@dataclass(frozen=True)
class Command:
    """A command of a page, and the lines that the page shows beneath it."""

    text: str
    shown: tuple[str, ...]


def commands(block: str) -> list[Command]:
    """Return the commands (lines with ``$``) of a console block, each with what it is shown to print."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    return [Command(first, tuple(shown)) for first, *shown in (part.splitlines() for part in parts[1:])]


def shortened(shown: tuple[str, ...]) -> bool:
    """Say whether the lines say that something is left out."""
    return any(line.rstrip().endswith("...") for line in shown)


def agrees(shown: tuple[str, ...], printed: str) -> bool:
    """Say whether that was printed: ``...`` stands for any lines where it is alone, and for any text within a line."""
    parts = (
        r"(?:[^\n]*\n)*?" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", r"[^\n]*") + r" *\n"
        for line in shown
    )
    return re.fullmatch("".join(parts), as_seen(printed)) is not None


def as_seen(printed: str) -> str:
    """Return what is left to see when a command is done."""
    return PROGRESS.sub("", printed)


def prepare(folder: Path) -> None:
    """Let commands find what the repository holds."""
    for name in LINKED:
        if (REPOSITORY / name).exists():
            (folder / name).symlink_to(REPOSITORY / name)


def in_a_shell(command: str, folder: Path) -> tuple[int, str]:
    """Run a command as a person does, with this Python's programs; return its exit code and what is seen."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in {"CI", "GITHUB_ACTIONS"}}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as seen:  # a file keeps the order of both streams
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**kept, "PATH": tools, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
            stdout=seen,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=LIMIT_S,
        )
        seen.seek(0)
        return done.returncode, seen.read()


def replay(
    page: str, folder: Path, run: Callable[[str, Path], tuple[int, str]], each: Callable[[Command, str], None]
) -> str:
    """Write the files of a page, run its commands, and return the page with what they print.

    Parameters
    ----------
    page
        Its text.
    folder
        Where its commands are run.
    run
        Runs a command in a folder.
    each
        Told of every command with what it printed; may raise.

    Raises
    ------
    RuntimeError
        If a command fails.
    """

    def block(match: "re.Match[str]") -> str:
        if match["name"]:
            (folder / match["name"]).write_text(match["text"], encoding="utf-8")
        if match["kind"] != "console":
            return match[0]
        written = []
        for command in commands(match["text"]):
            code, printed = run(command.text, folder)
            if code:
                raise RuntimeError(f"{command.text}\nexit code {code}\n{printed}")
            each(command, printed)
            lines = command.shown if shortened(command.shown) else as_seen(printed).splitlines()
            written += [f"$ {command.text}", *(line.rstrip() for line in lines)]
        return "```console\n" + "\n".join(written) + "\n```"

    return BLOCK.sub(block, page)


def main(pages: list[str]) -> None:
    """Write the outputs of pages."""
    for name in pages:
        folder = Path(tempfile.mkdtemp())
        try:
            prepare(folder)
            text = Path(name).read_text(encoding="utf-8")
            Path(name).write_text(replay(text, folder, in_a_shell, lambda *_: None), encoding="utf-8")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
