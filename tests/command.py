"""The command line, called in this process or in one of its own."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import typer.main

from fedsim.cli import app, run_app
from tests.conftest import LIMIT_S

REPOSITORY = Path.cwd()
NOT_HERE = ("CI", "GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS")
"""What continuous integration and people set, and what changes what commands say."""
MAIN, COMMANDS = import_module("fedsim.cli.main"), typer.main.get_command(app)
"""The module of the entry point, whose name is its function's too; and all commands, which each call makes anew."""


@dataclass(frozen=True)
class Done:
    """What a command has answered: its exit code, what it wrote, and both streams in the order of writing."""

    returncode: int
    stdout: str
    stderr: str
    seen: str = ""


class _Stream(io.StringIO):
    """Keeps what is written to it, and hands it on as well."""

    def __init__(self, seen: io.StringIO) -> None:
        super().__init__()
        self._seen = seen

    def write(self, text: str, /) -> int:
        self._seen.write(text)
        return super().write(text)


def fedsim(*arguments: object, cwd: Path | None = None, **environment: str) -> Done:
    """Call the command line as its entry point does, but in this process, which spares a second of imports.

    The commands are made once, which spares three quarters of the time of most calls.
    """
    seen = io.StringIO()
    out, err = _Stream(seen), _Stream(seen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fedsim", *map(str, arguments)])
        patch.setattr(sys, "path", [*sys.path])
        if "--install-completion" not in arguments:  # whose parameters depend on the environment
            patch.setattr(MAIN, "app", COMMANDS)
        for name in NOT_HERE:
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
            run_app()
    code = stopped.value.code
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue(), seen.getvalue())


def fedsim_process(
    *arguments: object, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own, where that is what is tested."""
    return subprocess.run(
        [sys.executable, "-m", "fedsim", *map(str, arguments)],
        cwd=cwd,
        env=variables(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


_LIMITED = """
import io, json, resource, sys
from pathlib import Path
from contextlib import redirect_stderr, redirect_stdout
from fedsim.cli import run_app

limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name, arguments in json.load(sys.stdin).items():
    sys.argv = ["fedsim", *arguments]
    said = io.StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(said):
            run_app()
    except SystemExit as stop:
        code = stop.code
    except BaseException as error:
        code = repr(error)
    # Not ru_maxrss, which begins with that of the process that started this one.
    peak = 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    print(json.dumps([name, code, said.getvalue(), peak]), flush=True)
"""


def fedsim_in_little_memory(commands: Mapping[str, list[str]], address_space: int) -> list[tuple[str, Any, str, int]]:
    """Run commands in one process that has so many bytes; return name, exit code, what is said, and the peak so far."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(address_space)],
        input=json.dumps(commands),
        env=variables({}),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in answers] == list(commands), done.stderr
    return answers


def variables(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command that runs the code of this repository, wherever it is run."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_HERE}
    return {**kept, "PYTHONPATH": str(REPOSITORY), **changes}


@contextmanager
def limited(most_s: float, *, processor_time: bool = False) -> Iterator[None]:
    """Let the block take no longer: by the clock on the wall, so that it must not wait either, or of processor time."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"took more than {most_s} s")

    timer = signal.ITIMER_VIRTUAL if processor_time else signal.ITIMER_REAL
    late = signal.SIGVTALRM if processor_time else signal.SIGALRM
    before = signal.signal(late, end)
    signal.setitimer(timer, most_s)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(late, before)
