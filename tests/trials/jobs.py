"""What workers of the tests do instead of a run, or before it."""

import os
import signal
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from fedsim.scenario import Scenario
from fedsim.trials.pilot import Estimate
from fedsim.trials.store import mark_of, write_run_results
from fedsim.trials.worker import RunOutcome, Task, work


def dies_once(task: Task) -> RunOutcome:
    """Kill the worker at the first attempt at seed 1, then do the run."""
    _note(task)
    mark = Path(task.folder) / ".died.partial"
    if task.scenario.seed == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return work(task)


def always_dies(task: Task) -> RunOutcome:
    """Kill the worker at every attempt at seed 1; do all other runs."""
    _note(task)
    if task.scenario.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(task)


def fails(task: Task) -> RunOutcome:
    """Fail for a reason that may pass at seed 0, for one that will not at seed 1."""
    _note(task)
    if task.scenario.seed == 0:
        return RunOutcome("out of luck")
    return RunOutcome("a bad idea", final=True) if task.scenario.seed == 1 else work(task)


def hangs(task: Task) -> RunOutcome:
    """Never end at seed 1; do all other runs."""
    if task.scenario.seed == 1:
        mark_of(Path(task.folder), task.run_id).touch()
        time.sleep(10_000)
    return work(task)


def stands_still(task: Task) -> RunOutcome:
    """Stop the worker at seed 1, as a machine that swaps does; do all other runs."""
    if task.scenario.seed == 1:
        mark_of(Path(task.folder), task.run_id).touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return work(task)


def pilot_dies(scenario: Scenario, _budget_s: float) -> Estimate:
    """Kill the process at the first point; say something of the others."""
    if scenario.server.wanted == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Estimate(2.0, 1.0, 3.0)


def pilot_hangs(scenario: Scenario, _budget_s: float) -> Estimate:
    """Never answer at the first point; say something of the others."""
    if scenario.server.wanted == 1:
        time.sleep(1000)
    return Estimate(2.0, 1.0, 3.0)


def pilot_of_variants(scenario: Scenario, _budget_s: float) -> Estimate:
    """Say that each optimizer takes a second, and the parts of the loss ten in all."""
    assert scenario.learning is not None
    seconds = len(scenario.learning.optimizers) + 10.0 * scenario.learning.loss_parts
    return Estimate(seconds, seconds, seconds)


def writes_elsewhere(_task: Task) -> RunOutcome:
    """Say that all went well, as a worker on another machine would."""
    return RunOutcome()


def nothing(task: Task) -> RunOutcome:
    """Write a result at once."""
    write_run_results(Path(task.folder), task.run_id, task.scenario.seed, {"nothing": 0.0})
    return RunOutcome()


def _note(task: Task) -> None:
    with (Path(task.folder) / "attempts.partial").open("a") as file:
        file.write(f"{task.scenario.seed} {task.run_id}\n")


def attempts(folder: Path, seed: int) -> int:
    """How many attempts there were at runs with this seed."""
    return sum(line.split()[0] == str(seed) for line in (folder / "attempts.partial").read_text().splitlines())


def pool(workers: int) -> Executor:
    """An executor that breaks as a whole when a worker dies."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def pid() -> int:
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def variable(name: str) -> str | None:
    return os.environ.get(name)


def raise_value_error() -> None:
    raise ValueError("odd")
