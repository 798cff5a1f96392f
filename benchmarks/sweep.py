"""What a sweep costs beside its runs, and what a second worker brings.

Run ``python benchmarks/sweep.py`` (about two minutes) on a machine that has little else to do. Printed are:

1. The time of a run that does nothing but write its file, from plan to ``sweep.json``: the slope between two sweeps of
   different sizes, since the start of a worker is paid once. Target: 5 ms a run.
2. The throughput of two workers over that of one, on runs of a few tenths of a second. The two take turns, so that what
   else the machine does meets both; the ratio is the median over turns, with its smallest and largest. Target: 1.8.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from statistics import median
from typing import Any

from fedsim.scenario import Scenario
from fedsim.trials.executors import Backend
from fedsim.trials.executors.local import LocalProcesses
from fedsim.trials.plan import plan_sweep
from fedsim.trials.store import write_run_results
from fedsim.trials.sweep import run_sweep
from fedsim.trials.worker import RunOutcome, Task, work

SCENARIO = """\
stop: {{rounds: {rounds}}}
population:
  - {{devices: 200, weight: {{kind: zipf, exponent: 1}}, separation: 5}}
server: {{cohort: 10}}
records: {{gauges: null}}
sweep: {{seeds: {seeds}}}
"""


def nothing(task: Task) -> RunOutcome:
    """Write a file with one figure."""
    write_run_results(Path(task.folder), task.run_id, task.scenario.seed, {"nothing": 0.0})
    return RunOutcome()


class Kept(Executor):
    """An executor that stays open from one sweep to the next, so that workers start once."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand it on."""
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave it as it is."""


def seconds(executor: Executor, workers: int, runs: int, rounds: int, job: Callable[[Task], RunOutcome]) -> float:
    """Wall time of a sweep, from the scenario file to its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.fedsim.yaml"
        file.write_text(SCENARIO.format(rounds=rounds, seeds=runs))
        began = time.perf_counter()
        backend = Backend("bench", lambda: Kept(executor), lambda _: workers)
        run_sweep(plan_sweep(Scenario.load(file)), Path(folder) / "sweep", backend, do=job)
        return time.perf_counter() - began


def overhead(runs: int, repeat: int) -> None:
    for workers in (1, 2):
        with LocalProcesses(workers) as executor:
            seconds(executor, workers, 4 * workers, 1, nothing)
            slopes = []
            for _ in range(repeat):
                short, long = (seconds(executor, workers, n, 1, nothing) for n in (runs // 10, runs))
                slopes.append(1e3 * (long - short) / (runs - runs // 10))
        print(f"overhead with {workers} worker(s): {median(slopes):.2f} ms a run")


def throughput(runs: int, rounds: int, repeat: int) -> None:
    with LocalProcesses(1) as one, LocalProcesses(2) as two:
        for executor, workers in ((one, 1), (two, 2)):
            seconds(executor, workers, 4 * workers, 10, work)
        ratios = list[float]()
        for turn in range(repeat):
            order = [(one, 1), (two, 2)][:: 1 if turn % 2 == 0 else -1]
            took = {workers: seconds(executor, workers, runs, rounds, work) for executor, workers in order}
            ratios.append(took[1] / took[2])
    print(f"throughput of two workers: {median(ratios):.2f} times that of one ({min(ratios):.2f} to {max(ratios):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="runs that do nothing")
    parser.add_argument("--rounds", type=int, default=1500, help="rounds of the runs that do something")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    overhead(options.runs, options.repeat)
    throughput(32, options.rounds, options.repeat)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
