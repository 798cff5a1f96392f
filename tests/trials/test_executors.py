"""Local worker processes, and the names of executors."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from fedsim.common.errors import FedsimError
from fedsim.trials.executors import backend_of
from fedsim.trials.executors.local import LocalProcesses, WorkerLostError
from tests.conftest import LIMIT_S
from tests.trials import jobs
from tests.trials.sweeping import session, started, until


@pytest.fixture
def local() -> Iterator[LocalProcesses]:
    with LocalProcesses(2) as executor:
        yield executor


def test_workers_are_processes_of_their_own_with_one_thread_each(local: LocalProcesses) -> None:
    pids = {local.submit(jobs.pid).result() for _ in range(6)}
    assert os.getpid() not in pids
    assert len(pids) <= 2
    own = os.environ.get("OPENBLAS_NUM_THREADS")
    assert local.submit(jobs.variable, "OPENBLAS_NUM_THREADS").result() == own == "1"


def test_the_environment_is_left_as_it_was() -> None:
    before = dict(os.environ)
    with LocalProcesses(1):
        pass
    assert dict(os.environ) == before


def test_what_a_task_raises_comes_back(local: LocalProcesses) -> None:
    with pytest.raises(ValueError, match="odd"):
        local.submit(jobs.raise_value_error).result()
    assert local.submit(jobs.pid).result() > 0


@pytest.mark.long
def test_a_worker_that_dies_takes_only_its_own_task_along(local: LocalProcesses) -> None:
    slow = local.submit(jobs.sleep, 1.0)
    with pytest.raises(WorkerLostError, match="SIGKILL"):
        local.submit(jobs.die).result()
    others = [local.submit(jobs.sleep, 0.01) for _ in range(4)]
    wait([slow, *others])
    assert all(future.exception() is None for future in (slow, *others))


@pytest.mark.long
def test_a_worker_killed_while_idle_costs_nothing(local: LocalProcesses) -> None:
    pid = local.submit(jobs.pid).result()
    (worker,) = local._idle
    os.kill(pid, signal.SIGKILL)
    until(lambda: worker.process.exitcode is not None)
    assert local.submit(jobs.pid).result() != pid


@pytest.mark.long
def test_interrupts_are_the_drivers_to_handle(local: LocalProcesses) -> None:
    pid = local.submit(jobs.pid).result()
    sleeping = local.submit(jobs.sleep, 0.3)
    os.kill(pid, signal.SIGINT)
    assert sleeping.result() == pid


def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        textwrap.dedent(
            """
            import time
            from fedsim.trials.executors.local import LocalProcesses
            if __name__ == "__main__":
                executor = LocalProcesses(2)
                futures = [executor.submit(time.sleep, 600) for _ in range(2)]
                time.sleep(600)
            """
        )
    )
    with started([sys.executable, str(script)]) as driver:
        until(lambda: len(session(driver.pid)) >= 3)
        driver.kill()
        driver.wait(LIMIT_S)
        until(lambda: not session(driver.pid), 20)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "import os\nfrom fedsim.trials.executors.local import LocalProcesses\n"
        "LocalProcesses(1).submit(os.getpid).result()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert "under `if __name__ == '__main__':`" in done.stderr


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("processes", "unknown executor 'processes'; known are process, dask=ADDRESS"),
        ("dask=", "unknown executor 'dask='"),
        ("no.such.module:pool", "cannot be imported: No module named 'no'"),
        ("tests.trials.jobs:poll", "cannot be imported"),
        ("tests.trials.jobs:__doc__", "is not a function"),
        (":", "cannot be imported"),
    ],
)
def test_unknown_executors_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(FedsimError) as caught:
        backend_of(name)
    assert complaint in str(caught.value)


def test_a_factory_must_return_an_executor() -> None:
    with pytest.raises(FedsimError, match=r"no concurrent\.futures\.Executor"):
        backend_of("builtins:str", 2).open()
    assert backend_of("concurrent.futures:ThreadPoolExecutor", 2).open().submit(jobs.pid).result() == os.getpid()
