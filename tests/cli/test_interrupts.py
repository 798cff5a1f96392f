"""Ctrl-C is an answer from the first instruction on: exit code 130 and one line."""

import errno
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fedsim.common.errors import RunError
from fedsim.common.files import remove, write_text
from fedsim.common.interrupts import THIS_PROCESS
from tests.command import fedsim, variables
from tests.conftest import LIMIT_S, SMALL

INTERRUPTS = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["fedsim", "metrics"]
from fedsim.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["fedsim.cli", "typer", "fedsim.cli.sweep", "polars", "numpy"])
def test_while_modules_are_imported(module: str) -> None:
    code = INTERRUPTS.replace("MODULE", repr(module))
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables({}), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


LOST = """
import os, signal, sys, weakref
class Thing: pass
thing = Thing()
def dies(_):
    for each in range(TIMES):
        os.kill(os.getpid(), SIGNAL)
        sum(range(1000))
kept = weakref.ref(thing, dies)
sys.argv = ["fedsim", "run", FILE, "--out", OUT]
import fedsim.pages.page
def page(*_, **__):
    global thing
    del thing
before = fedsim.run.simulate.record
def record(*given, **named):
    page()
    return before(*given, **named)
fedsim.run.simulate.record = record
from fedsim.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_that_python_drops_counts(tmp_path: Path, name: str, times: int) -> None:
    """It comes within a callback for a weak reference, where exceptions are printed and forgotten."""
    file = tmp_path / "a.fedsim.yaml"
    file.write_text(SMALL)
    values = {"TIMES": times, "SIGNAL": f"signal.{name}", "FILE": repr(str(file)), "OUT": repr(str(tmp_path / "run"))}
    code = "import fedsim.run.simulate\n" + LOST
    for key, value in values.items():
        code = code.replace(key, str(value))
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables({}), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 130, done.stderr
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert times == 2 or done.stderr.endswith("interrupted\n")


@pytest.mark.parametrize(
    "error", [None, pl.exceptions.PanicException("PyErr"), RunError("rounds.parquet cannot be read: PyErr")]
)
def test_what_compiled_code_makes_of_it(error: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's, numpy's and polars' make another error of an interrupt, which may count as damage of a file."""

    def interrupted() -> None:
        if error is None:
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
        THIS_PROCESS.asked = True
        raise error

    monkeypatch.setattr(THIS_PROCESS, "asked", False)
    monkeypatch.setattr("fedsim.measure.metrics.listed", interrupted)
    done = fedsim("metrics")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own clean-up failed, too."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RunError, match=r"page\.html cannot be written: Read-only file system"):
        write_text(tmp_path / "page.html", "x")


def test_a_file_that_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run showed a traceback where its journal could not be removed."""
    file, folder = tmp_path / "file", tmp_path / "folder"
    for path in (file, folder / "inside"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        remove(path.parent if path.parent == folder else path)
        assert not path.exists()
    remove(file)
    file.write_text("")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RunError, match="file cannot be removed: Input/output error"):
        remove(file)


EVALUATED = """
import os, signal, sys
import fedsim.cli
def run_app():
    try:
        eval("os.kill(os.getpid(), signal.SIGINT) or [0 for _ in range(9999)]")
    except KeyboardInterrupt:
        sys.exit(130)
fedsim.cli.run_app = run_app
from fedsim.__main__ import main
main()
"""
ENDING = """
import os, signal, sys
import fedsim.cli
class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), name=signal.SIGHUP):
        kill(process, name)
sys.last = Last()
fedsim.cli.run_app = lambda: sys.exit(0)
from fedsim.__main__ import main
main()
"""


@pytest.mark.parametrize(("code", "expected"), [(EVALUATED, 130), (ENDING, 0)])
def test_the_exit_code_is_ours_to_the_end(code: str, expected: int) -> None:
    """Python would end itself by SIGINT after one in `eval`, as of a dataclass, and restores the signals at its end."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables({}), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == expected, done.stderr
