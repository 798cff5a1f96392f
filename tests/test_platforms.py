"""What other systems lack is not needed: the package is imported, and used, without it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import variables
from tests.conftest import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="takes from Linux what others lack")

# What Windows has not, of the modules that the package uses: https://docs.python.org/3/library/os.html and its like.
WITHOUT = """
import os, signal, sys
import asyncio, concurrent.futures, importlib, multiprocessing.connection, multiprocessing.util, pathlib, pkgutil
import shutil, socket, sqlite3, subprocess, tempfile, zoneinfo
import filelock, jinja2, matplotlib.pyplot, numba, numpy, polars, pydantic, rich.console, rich.progress, rich.prompt
import ruamel.yaml
import scipy.fft, scipy.optimize, scipy.sparse.csgraph, scipy.sparse.linalg, scipy.stats, simpy, typer, typer.rich_utils

asyncio.new_event_loop().close()
shutil._use_fd_functions = False  # as on Windows: these need what is taken away
filelock.FileLock = filelock.SoftFileLock  # there it is one that this platform lacks
import multiprocessing.popen_fork as forked  # Windows ends a process without a signal
forked.Popen.kill = lambda self, end=os.kill, by=int(signal.SIGKILL): end(self.pid, by)
for name in ("fcntl", "grp", "posix", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in (
    "O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fork forkpty geteuid getuid getgid killpg lchown mkfifo nice openpty "
    "posix_spawn pread pwrite register_at_fork sched_getaffinity setsid sync sysconf uname wait WIFSIGNALED"
).split():
    delattr(os, name)
for name in (
    "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGVTALRM SIG_BLOCK alarm "
    "pthread_sigmask setitimer sigwait"
).split():
    delattr(signal, name)
"""

WINDOWS_FLUSHES = """
import fcntl
flags, access, written = fcntl.fcntl, os.O_ACCMODE, os.fsync
def fsync(file):
    if flags(file, fcntl.F_GETFL) & access == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    written(file)
os.fsync = fsync
"""

IMPORTS = """
import fedsim
optional = ("flwr", "jax_privacy", "pfl", "torch", "sklearn", "mlxtend", "ray", "distributed", "dask", "pytest")
for name in optional:
    sys.modules[name] = None
for found in pkgutil.walk_packages(fedsim.__path__, "fedsim."):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in optional:
            raise
print("imported")
"""

USE = """
import fedsim.__main__
def ended(*command):
    sys.argv[1:] = command
    try:
        fedsim.__main__.main()
    except SystemExit as error:
        assert not error.code, (command, error.code)
ended("init", "first.fedsim.yaml")
ended("run", "first.fedsim.yaml", "--set", "stop.rounds=20", "--quiet")
ended("sweep", "first.fedsim.yaml", "--set", "stop.rounds=20", "--set", "sweep={seeds: 2}", "--workers", "1", "--quiet")
ended("chain", "paper/synthetic")
"""


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        env=variables({}),
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_every_module_is_imported_without_what_windows_lacks(tmp_path: Path) -> None:
    assert ran(WITHOUT + IMPORTS, tmp_path).stdout.endswith("imported\n")


@pytest.mark.long
def test_commands_work_without_what_windows_lacks(tmp_path: Path) -> None:
    """Files were flushed through a descriptor that only reads, which Windows refuses."""
    done = ran("import os\n" + WINDOWS_FLUSHES + WITHOUT + USE, tmp_path)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.glob("runs/*/report.html"))
    assert list(tmp_path.glob("sweeps/*/report.html"))
