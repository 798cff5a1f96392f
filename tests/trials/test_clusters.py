"""Sweeps on a real Dask scheduler and a real Ray instance, with a worker killed in the middle of a run."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from fedsim.scenario import Scenario
from fedsim.trials.results import read_results
from fedsim.trials.sweep import sweep
from tests.command import fedsim as fedsim_here
from tests.command import fedsim_process as fedsim
from tests.conftest import LIMIT_S, Write
from tests.trials.sweeping import (
    SLOW,
    SWEPT,
    THREADS,
    alive,
    children,
    command,
    done_here,
    results,
    run_files,
    session,
    started,
    until,
)
from tests.trials.test_decide import TRAINED

needs_dask = pytest.mark.skipif(not find_spec("distributed"), reason="needs dask[distributed]: pip install '.[dask]'")
needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="needs ray: pip install '.[ray]'")
pytestmark = pytest.mark.long


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def listening(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Cluster:
    """An address for ``--executor``, and the processes that do the runs."""

    def __init__(self, executor: str, workers: Callable[[], list[int]], head: int = 0) -> None:
        self.executor, self.workers, self.head = executor, workers, head


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and two worker processes without a nanny: one that is killed stays away."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as stack:
        stack.enter_context(
            started([*_dask("scheduler"), "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"])
        )
        until(lambda: listening(port))
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        folder = ["--local-directory", str(tmp_path / "dask")]
        pids = [stack.enter_context(started([*_dask("worker"), address, *options, *folder])).pid for _ in range(2)]
        yield Cluster(f"dask={address}", lambda: [pid for pid in pids if alive(pid)])


def _dask(what: str) -> list[str]:
    return [sys.executable, "-m", "dask", what]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A Ray instance with two processors and a token of its own, whatever the home folder holds."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    port = free_port()
    tool = str(Path(sys.executable).parent / "ray")
    # Sockets live below this folder, and their paths must be short.
    folder = Path(f"/tmp/fedsim-ray-{port}")
    start = [tool, "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2"]
    start += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}"]
    start += ["--object-store-memory=100000000"]
    with started(start) as head:
        until(lambda: listening(port) and _workers(head.pid) is not None)
        yield Cluster(f"ray=127.0.0.1:{port}", lambda: _workers(head.pid), head.pid)
        head.send_signal(signal.SIGTERM)
        head.wait(30)
    subprocess.run(["rm", "-rf", str(folder)], check=False, timeout=LIMIT_S)


def _workers(head: int) -> list[int]:
    """Return the processes of a Ray instance that are at a task."""
    below = {head}
    while more := {child for pid in below for child in children(pid, "")} - below:
        below |= more
    return [pid for pid in below if _title(pid).startswith("ray::_call")]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


OWN = """\
stop: {rounds: 5}
population: [{devices: 6}]
server: {cohort: 2}
metrics: ["own_of_clusters:Own"]
sweep: {seeds: 4}
"""
METRIC = """\
import time
from own_helper_of_clusters import HELPED

class Own:
    name = "own.value"
    unit = ""
    meaning = "a number"

    def measure(self, run):
        DO
"""


def check_own_code(cluster: Cluster, file: Path, ended: str) -> None:
    """Edit what a module imports between two sweeps on the same workers; let the module hang in a third."""
    module = file.with_name("own_of_clusters.py")

    def swept(name: str, do: str | float, *more: str) -> tuple[int, str, list[float]]:
        module.write_text(METRIC.replace("DO", "return HELPED" if isinstance(do, float) else do))
        file.with_name("own_helper_of_clusters.py").write_text(f"HELPED = {do if isinstance(do, float) else 0.0}")
        folder = file.with_name(name)
        how = ("--executor", cluster.executor, "--allow-plugins", "--no-report", *more)
        done = fedsim("sweep", file, "--out", folder, *how)
        table = read_results(folder)
        return done.returncode, done.stderr, table.filter(table["metric"] == "own.value")["value"].to_list()

    for number in (1.0, 2.0):
        assert swept(str(number), number)[::2] == (0, [number] * 4)
    mark = file.with_name("hung")
    hangs = f"import os, sys; first = 'sweep' not in sys.argv and not os.path.exists({str(mark)!r}); "  # on a worker
    hangs += f"first and open({str(mark)!r}, 'w'); time.sleep(1e6 if first else 0); return 3.0"
    code, said, values = swept("hanging", hangs, "--timeout", "15s")
    assert (code, values) == (3, [3.0] * 3), said
    assert "took longer than 15 s, its limit (--timeout), and was given up: its " in said
    assert ended in said
    assert swept("hanging", hangs)[::2] == (0, [3.0] * 4)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep that the local executor has done, as clusters must do it too."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "slow.fedsim.yaml").write_text(SLOW, encoding="utf-8")
    done = fedsim("sweep", folder / "slow.fedsim.yaml", "--out", folder / "s", "--no-report")
    assert done.returncode == 0, done.stderr
    return folder / "s"


def check_sweep(cluster: Cluster, slow: Path, folder: Path, local: Path) -> None:
    """Sweep, kill one worker in the middle, and look for every result once, as the local executor has it."""
    with started(command("sweep", slow, "--out", folder, "--executor", cluster.executor)) as driver:
        until(lambda: run_files(folder))
        until(cluster.workers)
        os.kill(cluster.workers()[0], signal.SIGKILL)
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
        assert "8 of 8 runs complete" in said
        # Dask does it by itself, Ray leaves it to us.
        assert ("trying again" in said) == cluster.executor.startswith("ray=")
        assert "Traceback" not in said
    assert len(run_files(folder)) == 8
    assert_frame_equal(results(folder), done_here(Scenario.load(slow)))
    assert [file.read_bytes() for file in run_files(folder)] == [file.read_bytes() for file in run_files(local)]


def check_resume(cluster: Cluster, slow: Path, folder: Path) -> None:
    """Kill the driver; a second call does what is missing, and only that."""
    with started(command("sweep", slow, "--out", folder, "--executor", cluster.executor)) as driver:
        until(lambda: len(run_files(folder)) >= 2)
        driver.kill()
        driver.wait(LIMIT_S)
    before = {path: path.stat().st_mtime_ns for path in run_files(folder)}
    done = fedsim("sweep", slow, "--out", folder, "--executor", cluster.executor, "--no-report")
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_frame_equal(results(folder), done_here(Scenario.load(slow)))


def check_decision(cluster: Cluster, file: Path, folder: Path) -> None:
    """Decide on the cluster: the answer and every result are those of this machine."""
    told = []
    for name, executor in (("there", cluster.executor), ("here", THREADS)):
        done = fedsim("decide", file, "--out", folder / name, "--executor", executor)
        assert done.returncode == 0, done.stderr
        told.append(done.stderr.splitlines()[-1])
    assert told[0] == told[1]
    assert told[0].startswith("Choose R = ")
    here, there = (sorted((folder / name).rglob("runs/*.parquet")) for name in ("here", "there"))
    assert [each.name for each in here] == [each.name for each in there]
    assert [each.read_bytes() for each in here] == [each.read_bytes() for each in there]


@needs_dask
def test_dask_with_a_worker_killed(dask: Cluster, write: Write, tmp_path: Path, local: Path) -> None:
    check_sweep(dask, write(SLOW, "slow.fedsim.yaml"), tmp_path / "s", local)
    assert len(dask.workers()) == 1


@needs_dask
def test_a_client_of_dask_is_left_open(dask: Cluster, write: Write, tmp_path: Path) -> None:
    from distributed import Client

    file = write(SWEPT)
    with Client(dask.executor.removeprefix("dask="), set_as_default=False) as client:
        assert sweep(file, tmp_path / "s", executor=client).crashed == {}
        assert client.submit(os.getpid).result() in dask.workers()
    assert_frame_equal(results(tmp_path / "s"), done_here(Scenario.load(file)))


@pytest.mark.campaign
@needs_dask
def test_dask_with_code_of_one_s_own(dask: Cluster, write: Write) -> None:
    check_own_code(dask, write(OWN, "own.fedsim.yaml"), "Dask worker tcp://127.0.0.1:")
    assert len(dask.workers()) == 1


@pytest.mark.campaign
@needs_dask
def test_dask_with_the_driver_killed_and_a_decision(dask: Cluster, write: Write, tmp_path: Path) -> None:
    check_resume(dask, write(SLOW, "slow.fedsim.yaml"), tmp_path / "s")
    check_decision(dask, write(TRAINED, "decide.fedsim.yaml"), tmp_path)


@pytest.mark.parametrize(
    "address", [pytest.param("dask=tcp://127.0.0.1", marks=needs_dask), pytest.param("ray=127.0.0.1", marks=needs_ray)]
)
def test_a_cluster_that_is_not_there_is_an_error(write: Write, tmp_path: Path, address: str) -> None:
    address = f"{address}:{free_port()}"
    done = fedsim("sweep", write(SLOW), "--out", tmp_path / "s", "--executor", address)
    assert done.returncode == 3
    assert "error: the executor cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


@needs_ray
def test_ray_with_a_worker_killed(ray: Cluster, write: Write, tmp_path: Path, local: Path) -> None:
    check_sweep(ray, write(SLOW, "slow.fedsim.yaml"), tmp_path / "s", local)


@pytest.mark.campaign
@needs_ray
def test_ray_with_code_of_one_s_own_and_then_without_its_head(ray: Cluster, write: Write, tmp_path: Path) -> None:
    """Without the head the sweep ends with exit code 3, in our words, and the same command does the rest elsewhere."""
    check_own_code(ray, write(OWN, "own.fedsim.yaml"), "Ray worker was ended")
    folder, slow = tmp_path / "s", write(SLOW, "slow.fedsim.yaml")
    with started(command("sweep", slow, "--out", folder, "--executor", ray.executor)) as driver:
        until(lambda: run_files(folder))
        for pid in session(ray.head):
            os.kill(pid, signal.SIGKILL)
        _, said = driver.communicate(timeout=120)
    assert driver.returncode == 3, said
    assert "error: the executor was lost; the same command does the rest (ray=" in said
    assert not re.search(r"Traceback|rpc_client|GCS", said)
    assert json.loads((folder / "sweep.json").read_text())["status"] == "incomplete"
    assert fedsim_here("sweep", slow, "--out", folder, "--executor", THREADS, "--no-report").returncode == 0


@pytest.mark.campaign
@needs_ray
def test_ray_with_the_driver_killed_and_a_decision(ray: Cluster, write: Write, tmp_path: Path) -> None:
    check_resume(ray, write(SLOW, "slow.fedsim.yaml"), tmp_path / "s")
    check_decision(ray, write(TRAINED, "decide.fedsim.yaml"), tmp_path)


@needs_ray
def test_a_machine_that_left_the_ray_cluster_is_told_in_our_words() -> None:
    """Ray's own words are of its insides; other errors of a task are its own."""
    import ray

    from fedsim.trials.executors.ray_cluster import _worded

    died = _worded(ray.exceptions.NodeDiedError("the GCS said so"))
    assert str(died) == "the machine that did it left the Ray cluster"
    other = ValueError("GCS")
    assert _worded(other) is other
