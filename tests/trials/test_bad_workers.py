"""Clusters some of whose workers cannot do the runs, and clusters that are lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from fedsim.scenario import Scenario
from tests.command import REPOSITORY
from tests.command import fedsim as fedsim_here
from tests.command import fedsim_process as fedsim
from tests.conftest import Write
from tests.trials.sweeping import SLOW, SWEPT, THREADS, command, done_here, results, run_files, started, until
from tests.trials.test_clusters import METRIC, _dask, free_port, listening, needs_dask, needs_ray

pytestmark = pytest.mark.long
MANY = SWEPT.replace("seeds: 3", "seeds: 8") + 'metrics: ["own_elsewhere:Own"]\n'
LOST = "error: the executor was lost; the same command does the rest (dask=tcp://127.0.0.1:"
OWN = METRIC.replace("from own_helper_of_clusters import HELPED\n", "").replace("DO", "return 1.0")


def home_of(folder: Path, kind: str) -> Path:
    """Return a folder from which processes of a kind import."""
    home = folder / "homes" / kind
    if not home.exists():
        home.mkdir(parents=True)
        (home / "own_elsewhere.py").write_text(OWN.replace("1.0", "2.0") if kind == "other" else OWN)
        if kind == "missing":
            (home / "fedsim.py").write_text("raise ModuleNotFoundError(\"No module named 'fedsim'\")\n")
        elif kind == "old":
            shutil.copytree(REPOSITORY / "fedsim", home / "fedsim", ignore=shutil.ignore_patterns("__pycache__"))
            (home / "fedsim" / "_version.py").write_text('__version__ = "0.0.1"\n')
        else:
            (home / "fedsim").symlink_to(REPOSITORY / "fedsim")
    return home


def at_home(home: Path, *words: str) -> list[str]:
    """Return the command that starts a process in a folder from which it imports."""
    return ["env", "-C", str(home), f"PYTHONPATH={home}", *words]


class Dask:
    """A scheduler, and workers of several kinds.

    ``old`` ones have fedsim 0.0.1, for ``missing`` ones there is none, and ``other`` ones have another module of the
    user's.
    """

    def __init__(self, folder: Path, stack: ExitStack, kind: str = "good") -> None:
        self._folder, self._stack, port = folder, stack, free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        self.scheduler = self._start(kind, "scheduler", options)
        until(lambda: listening(port))
        self.expected = 0

    def worker(self, kind: str = "good", *, nanny: bool = False) -> None:
        options = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", "--nanny" if nanny else "--no-nanny"]
        self._start(kind, "worker", [self.address, *options, "--local-directory", str(self._folder / "dask")])
        self.expected += 1

    def ready(self) -> dict[str, Any]:
        """Wait for all workers; return their processes."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(self.expected, timeout=100)
            return dict(client.run(os.getpid))

    def command(self, file: Path, out: Path) -> list[str]:
        how = ["--executor", f"dask={self.address}", "--no-report", "--quiet", "--retries", "0", "--allow-plugins"]
        return ["sweep", str(file), "--out", str(out), *how]

    def swept(self, file: Path, out: Path) -> tuple[int, list[str]]:
        """Sweep; return the exit code and the lines that were said."""
        done = fedsim(*self.command(file, out), PYTHONPATH=str(home_of(self._folder, "good")))
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr.splitlines()

    def _start(self, kind: str, what: str, options: list[str]) -> int:
        arguments = at_home(home_of(self._folder, kind), *_dask(what), *options)
        return self._stack.enter_context(started(arguments)).pid


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    with ExitStack() as stack:
        yield Dask(tmp_path, stack)


@needs_dask
@pytest.mark.parametrize(
    ("bad", "why", "most"),
    [
        ("old", "1 of 3 workers get no runs: fedsim is 0.0.1 there and ", 1),
        (
            "missing",
            "1 of 3 workers get no runs: cannot import fedsim: ModuleNotFoundError: No module named 'fedsim'",
            1,
        ),
        ("other", "reads another content of the module own_elsewhere", 2),
    ],
)
def test_one_bad_worker_of_three_costs_no_run(
    dask: Dask, write: Write, tmp_path: Path, bad: str, why: str, most: int
) -> None:
    """Not even without a retry: 24 of 24 runs are done."""
    for kind in ("good", bad, "good"):
        dask.worker(kind)
    dask.ready()
    code, said = dask.swept(write(MANY), tmp_path / "s")
    assert code == 0, said
    assert len(run_files(tmp_path / "s")) == 24
    assert 1 <= len(said) <= most
    assert all(why in line for line in said)
    assert said[-1].endswith("; that worker gets no more runs; trying again") == (len(said) == 2)


@needs_dask
def test_a_cluster_without_a_good_worker_is_an_error(dask: Dask, write: Write, tmp_path: Path) -> None:
    for kind in ("old", "missing", "missing"):
        dask.worker(kind)
    dask.ready()
    code, (said,) = dask.swept(write(MANY), tmp_path / "s")
    assert code == 3
    assert said.startswith("error: no worker can do the runs: ")
    assert "fedsim is 0.0.1 there and " in said
    assert "cannot import fedsim: ModuleNotFoundError: No module named 'fedsim' (on 2: tcp://127.0.0.1:" in said


@needs_dask
def test_a_stopped_worker_is_named_and_costs_no_run(
    dask: Dask, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not killed, so that Dask would wait for it for five minutes. If all are stopped, the sweep ends."""
    monkeypatch.setattr("fedsim.trials.executors.dask_cluster._SILENT_S", 3.0)
    dask.worker()
    dask.worker()
    (stopped, pid), (_, other) = dask.ready().items()
    os.kill(pid, signal.SIGSTOP)
    done = fedsim_here(*dask.command(write(SWEPT), tmp_path / "s"))
    assert (done.returncode, len(run_files(tmp_path / "s"))) == (0, 9), done.stderr
    wrong = f"nothing heard of it for 3 s (on 1: {stopped})"
    assert done.stderr == f"dask={dask.address}: 1 of 2 workers get no runs: {wrong}\n"
    os.kill(other, signal.SIGSTOP)
    done = fedsim_here(*dask.command(write(SWEPT), tmp_path / "other"))
    assert done.returncode == 3
    assert "no worker can do the runs: nothing heard of it for 3 s (on 2: " in done.stderr


@needs_dask
def test_a_scheduler_without_fedsim_is_an_error(tmp_path: Path, write: Write) -> None:
    with ExitStack() as stack:
        dask = Dask(tmp_path, stack, "missing")
        code, (said,) = dask.swept(write(MANY), tmp_path / "s")
    assert code == 3
    assert "cannot import fedsim (No module named 'fedsim'); install it there" in said


@needs_dask
def test_workers_that_come_late_and_then_a_scheduler_that_dies(dask: Dask, write: Write, tmp_path: Path) -> None:
    """First there is none. The only good one dies and is replaced while a bad one is there. Then all is lost.

    The same command does the rest, here on this machine.
    """
    folder, file = tmp_path / "s", write(SLOW, "slow.fedsim.yaml")
    with started(command(*dask.command(file, folder))) as driver:
        assert driver.stderr is not None
        assert driver.stderr.readline() == f"dask={dask.address}: no workers; waiting 60 s for one\n"
        dask.worker(nanny=True)
        until(lambda: run_files(folder))
        good = dask.ready()
        dask.worker("missing")
        assert "1 of 2 workers get no runs: cannot import fedsim" in driver.stderr.readline()
        (pid,) = good.values()
        os.kill(pid, 9)
        before = len(run_files(folder))
        until(lambda: len(run_files(folder)) > before)
        os.kill(dask.scheduler, 9)
        _, said = driver.communicate(timeout=120)
    assert driver.returncode == 3, said
    assert said.startswith(LOST)
    assert len(said.splitlines()) == 1
    assert json.loads((folder / "sweep.json").read_text())["status"] == "incomplete"
    assert run_files(folder)
    assert fedsim_here("sweep", file, "--out", folder, "--executor", THREADS, "--no-report").returncode == 0
    assert_frame_equal(results(folder), done_here(Scenario.load(file)))


@needs_dask
def test_a_scheduler_that_dies_between_check_and_first_run_is_an_error(
    dask: Dask, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsim.trials.executors.dask_cluster import DaskExecutor

    dask.worker()
    dask.ready()
    submit = DaskExecutor.submit

    def too_late(self: DaskExecutor, *arguments: Any) -> Any:
        os.kill(dask.scheduler, 9)
        return submit(self, *arguments)

    monkeypatch.setattr(DaskExecutor, "submit", too_late)
    monkeypatch.syspath_prepend(home_of(tmp_path, "good"))
    done = fedsim_here(*dask.command(write(MANY), tmp_path / "s"))
    assert (done.returncode, done.stderr.startswith(LOST)) == (3, True), done.stderr


@pytest.mark.campaign
@needs_ray
def test_a_machine_of_a_ray_cluster_with_another_version_costs_no_run(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    port, sockets = free_port(), Path(f"/tmp/fedsim-ray-{os.getpid()}")  # whose paths must be short
    start = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--num-cpus=1"]
    start += ["--node-ip-address=127.0.0.1"]
    start += ["--disable-usage-stats", "--object-store-memory=100000000"]
    head = [*start, "--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={sockets}"]
    other = [*start, f"--address=127.0.0.1:{port}", f"--dashboard-agent-listen-port={free_port()}"]
    other += ["--min-worker-port=20000", "--max-worker-port=20999"]
    good, file = home_of(tmp_path, "good"), write(MANY)
    with started(at_home(good, *head)):
        until(lambda: listening(port) and _nodes(port, good) == 1)
        with started(at_home(home_of(tmp_path, "old"), *other)):
            until(lambda: _nodes(port, good) == 2)
            how = ["--executor", f"ray=127.0.0.1:{port}", "--no-report", "--quiet", "--retries", "0", "--allow-plugins"]
            done = fedsim("sweep", file, "--out", tmp_path / "s", *how, cwd=tmp_path, PYTHONPATH=str(good))
    shutil.rmtree(sockets, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    assert len(run_files(tmp_path / "s")) == 24
    # On a busy machine, a run may reach that worker before its version is known, and is tried again.
    assert (said := done.stderr.splitlines())
    known, met = "1 of 2 workers get no runs: fedsim is 0.0.1 there and ", "that worker gets no more runs; trying again"
    assert all(known in line or ("fedsim 0.0.1, and" in line and met in line) for line in said)


def _nodes(port: int, folder: Path) -> int:
    """Return how many machines a Ray cluster has."""
    asks = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False); print(len(ray.nodes()))"
    words = [sys.executable, "-c", asks, f"127.0.0.1:{port}"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else 0
