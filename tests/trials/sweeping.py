"""Sweeps for the tests: a small scenario, the command line in a process of its own, and processes to look for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import polars as pl

from fedsim.scenario import Scenario
from fedsim.trials.results import read_results
from tests.conftest import LIMIT_S

SWEPT = """\
stop: {rounds: 40}
population:
  - {devices: 12, weight: {kind: zipf, exponent: 1}}
server: {cohort: 3}
records: {gauges: null}
sweep:
  grid: {"population.*.separation": [0, 1, 2]}
  seeds: 3
"""
THREADS = "concurrent.futures:ThreadPoolExecutor"
"""An executor that starts no processes."""
# Long enough that a worker can be killed in the middle of a run.
SLOW = """\
stop: {rounds: 6000}
population:
  - {devices: 40, weight: {kind: zipf, exponent: 1}, separation: 2}
server: {cohort: 5}
records: {gauges: null}
sweep: {seeds: 8}
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "fedsim", *map(str, arguments)]


@contextmanager
def started(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a process in a session of its own, and see that nothing of that session is left in the end."""
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        for pid in session(process.pid):
            os.kill(pid, 9)
        process.communicate(timeout=LIMIT_S)


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until something has happened; fail if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    return any(other == pid and fields[0] != "Z" for other, fields in _processes())


def session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    return [pid for pid, fields in _processes() if int(fields[3]) == leader and fields[0] != "Z"]


def children(parent: int, words: str) -> list[int]:
    """Return the living children of a process whose command line contains some words."""
    return [
        pid
        for pid, fields in _processes()
        if int(fields[1]) == parent and fields[0] != "Z" and words in _command_line(pid)
    ]


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            yield int(entry.name), text.rpartition(")")[2].split()


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def run_files(directory: Path) -> list[Path]:
    return sorted((directory / "runs").glob("[!.]*.parquet"))


def done_here(scenario: Scenario) -> pl.DataFrame:
    """Return what a sweep of a scenario must find, computed run by run in this process, once for each scenario."""
    return _done_here(scenario.model_dump_json())


@cache
def _done_here(written: str) -> pl.DataFrame:
    from fedsim.run.simulate import simulate
    from fedsim.trials.plan import plan_sweep

    plan = plan_sweep(Scenario.model_validate_json(written))
    rows = []
    for run in plan.runs:
        metrics = simulate(plan.scenario_of(run)).metrics
        values = pl.Series(list(metrics.values()), dtype=pl.Float64).fill_nan(None)
        rows.append(
            pl.DataFrame(
                {"run_id": [run.run_id] * len(metrics), "metric": list(metrics), "value": values}
            ).with_columns(pl.lit(run.point, pl.Int64).alias("point"), pl.lit(run.seed, pl.Int64).alias("seed"))
        )
    return pl.concat(rows).select("run_id", "point", "seed", "metric", "value")


def results(directory: Path) -> pl.DataFrame:
    return read_results(directory).select("run_id", "point", "seed", "metric", "value")
