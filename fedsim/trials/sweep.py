"""Runs a sweep: does the missing runs and keeps their results."""

import math
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl

from fedsim._version import __version__
from fedsim.common.arguments import path_of, whole
from fedsim.common.errors import SweepError
from fedsim.common.files import name_of_file
from fedsim.common.instants import readable_time
from fedsim.common.messages import log_warning
from fedsim.common.progress import Report, in_notebooks, silent
from fedsim.common.renamed import once_called
from fedsim.log import fingerprint
from fedsim.run.files import Provenance
from fedsim.scenario import GivenScenario, Scenario, as_scenario, import_folders
from fedsim.trials import store
from fedsim.trials.contrasts import differences
from fedsim.trials.dispatch import Dispatcher, Settled
from fedsim.trials.executors import Backend, backend_of
from fedsim.trials.executors.local import LocalProcesses
from fedsim.trials.pilot import pilot
from fedsim.trials.plan import LEAST_S, Plan, PlannedRun, default_limit, plan_sweep
from fedsim.trials.results import FIXED, read_results
from fedsim.trials.trials import Trials
from fedsim.trials.worker import RunOutcome, Task, work

if TYPE_CHECKING:
    from distributed import Client

_PILOT_AFTER_S, _PILOT_S = 4.0, 1.0  # without a run that has ended; and processor seconds for its rounds
_Tell = Callable[[str], None]


@dataclass(frozen=True)
class Swept:
    """What became of a sweep."""

    directory: Path
    runs: int
    kept: int  # how many of the runs were there already
    crashed: dict[PlannedRun, str]  # the runs that failed for good, with their errors
    seconds: float  # wall time of this call

    def results(self) -> pl.DataFrame:
        """Read one row for each run and metric; see `fedsim.trials.results.read_results`."""
        return read_results(self.directory)

    def differences(
        self, metrics: Sequence[str] | None = None, *, baseline: int | None = None, confidence: float = 0.95
    ) -> pl.DataFrame:
        """Return how metrics differ from those at a baseline point, by `fedsim.trials.contrasts.differences`."""
        trials = Trials.read(self.directory)
        return differences(trials, trials.beside(baseline), metrics, confidence)

    def _repr_html_(self) -> str:
        """Show the sweep in a notebook: its finding, its first picture, and a table of its settings."""
        from fedsim.pages.page import notebook_fragment

        return notebook_fragment(self.directory)


@once_called(on_error="tell")
def sweep(
    scenario: GivenScenario,
    directory: str | os.PathLike[str] | None = None,
    *,
    executor: "str | Executor | Client" = "process",
    workers: int | None = None,
    retries: int = 2,
    timeout: float | None = None,
    report: Report | None = None,
    on_error: _Tell = log_warning,
) -> Swept:
    """Run a scenario's sweep, all points with the same seeds, and return it; a second call does what is missing.

    Parameters
    ----------
    scenario
        A scenario, or the name of its file.
    directory
        Where the results are kept; by default ``sweeps/NAME``.
    executor
        ``process`` (a script must then sweep under ``if __name__ == "__main__":``), ``dask=ADDRESS``, ``ray=ADDRESS``,
        or ``package.module:function`` that returns a `concurrent.futures.Executor`; or such an executor, or a Dask
        client, which is left open.
    workers
        Runs at once; by default one for each processor, or thread of the Dask cluster.
    retries
        Further attempts for a run that is lost.
    timeout
        Seconds after which a run is given up and counts as crashed; by default 20 times what the plan estimates at most
        for its point, at least 600, and a day where nothing can be estimated.
    report, on_error
        Called with how much is done (by default a notebook shows a bar), and with what went wrong with a run (by
        default the logger ``fedsim`` warns of it).

    Raises
    ------
    ScenarioError
        With every mistake in any point.
    RunError
        If the executor means nothing, or the directory cannot be written, holds something else, or is in use.
    SweepError
        If the executor cannot go on.

    >>> grid = "sweep={grid: {population.*.separation: [4, 12]}}"
    >>> scenario = Scenario.load("paper/synthetic", [grid, "stop.rounds=50", "learning=null", "expect=[]"])
    >>> sweep(scenario, "sweeps/two", executor="concurrent.futures:ThreadPoolExecutor").runs
    2
    """
    scenario = as_scenario(scenario, several=True)
    given = None if directory is None else path_of("directory", directory, "the folder to write")
    backend = backend_of(executor, None if workers is None else whole("workers", workers, 1))
    plan = plan_sweep(scenario)
    folder = default_sweep_directory(scenario) if given is None else given
    again = whole("retries", retries)
    with in_notebooks() if report is None else nullcontext(report) as progress:
        return run_sweep(plan, folder, backend, retries=again, timeout=timeout, progress=progress, tell=on_error)


def run_sweep(
    plan: Plan,
    directory: str | Path,
    backend: Backend,
    *,
    retries: int = 2,
    timeout: float | None = None,
    provenance: Provenance | None = None,
    progress: Report = silent,
    tell: _Tell = lambda _: None,
    do: Callable[[Task], RunOutcome] = work,
    command: str = "",
    until: float = math.inf,
    part: Mapping[str, Any] = MappingProxyType({}),
) -> Swept:
    """Do the runs of a plan that are missing in a directory; everything else, errors included, is as in `sweep`.

    The directory is new, or that of an earlier call, whose runs are kept, on a file system that all workers share. It
    states the `command`, and of which `part` of a decision it is. `do` is what a worker does with a task. A
    `TimeIsOverError` says that the clock, `time.monotonic`, has reached `until`.
    """
    provenance = provenance or Provenance(permissions=plan.scenario.permissions)
    folder = store.open_sweep_directory(directory).absolute()
    began = time.monotonic()
    places = import_folders(provenance.file, provenance.permissions) if provenance.file else ()
    with store.sole_sweep_writer(folder):
        there = store.complete_runs(folder)
        stalled = {run_id: error for run_id, error in store.stalled_runs(folder).items() if run_id not in there}
        over = there.union(stalled)
        missing = list({run.run_id: run for run in plan.runs if run.run_id not in over}.values())
        missing.sort(key=lambda run: run.seed)  # every setting once, and one seed's data after another
        kept = sum(run.run_id in there for run in plan.runs)
        about = _about(plan, provenance) | {"command": command, **({"part": dict(part)} if part else {})}
        store.write_sweep(folder, about | {"status": "running"})
        store.forget_crashes(folder, [run.run_id for run in plan.runs if run.run_id not in stalled])
        status, crashed = "interrupted", {run: stalled[run.run_id] for run in plan.runs if run.run_id in stalled}

        def task_of(run: PlannedRun) -> Task:
            return Task(run.run_id, plan.scenario_of(run), str(folder), places, plan.points[run.point].inputs)

        done = 1.0 - len(missing) / max(1, len(plan.runs))
        foreseen = _Foreseen(plan, missing, lambda text: progress("sweeping", done, text))
        # A decision has no time for pilots, and only where processes are started anyway may one more be.
        tells = do is work and not part and backend.name == "process"
        dispatcher = Dispatcher(
            deque(missing),
            backend,
            task_of,
            retries,
            do,
            begun=lambda run: store.mark_of(folder, run.run_id).exists(),
            forget=lambda run: store.remove_mark(folder, run.run_id),
            limit_s=default_limit(plan) if timeout is None else lambda _: timeout,
            soonest_s=LEAST_S if timeout is None else 0.0,
            tell=tell,
            until=until,
            look=foreseen.look if tells else lambda _: None,
        )
        try:
            with closing(dispatcher.settled()) as attempts, closing(foreseen):
                crashed |= _follow(foreseen.until_one(attempts), len(missing), plan, folder, progress, tell)
            status = "crashed" if crashed else "complete"
            about["fingerprint"] = fingerprint(read_results(folder).select(FIXED))
        except SweepError:
            status = "incomplete"
            raise
        finally:
            seconds = time.monotonic() - began
            store.write_sweep(folder, about | {"status": status, "wall_time_s": round(seconds, 3)})
    return Swept(Path(directory), len(plan.runs), kept, crashed, seconds)


class _Foreseen:
    """Tells about how long runs take, by a pilot of the first in a process of its own, where none ends soon."""

    def __init__(self, plan: Plan, missing: Sequence[PlannedRun], tell: _Tell) -> None:
        self._plan, self._missing, self._tell, self._began = plan, missing, tell, time.monotonic()
        self._pilots: LocalProcesses | None = None

    def look(self, at_once: int) -> None:
        """Begin the pilot after some seconds, and tell what it gives for so many runs at once."""
        if self._pilots is None and self._missing and time.monotonic() - self._began >= _PILOT_AFTER_S:
            self._pilots = LocalProcesses(1)
            self._trial = self._pilots.submit(pilot, self._plan.scenario_of(self._missing[0]), _PILOT_S)
        elif self._pilots is not None and self._trial.done():
            estimate = None if self._trial.exception() else self._trial.result()
            if estimate is not None:
                turns = -(-len(self._missing) // max(1, at_once))
                low, high = (readable_time(max(1.0, turns * each)) for each in (estimate.low, estimate.high))
                self._tell(f"about {low} to {high} if all runs are like the first")
            self.close()

    def until_one(self, attempts: Iterable[Settled]) -> Iterator[Settled]:
        """Go through attempts, the first of which tells more."""
        for each in attempts:
            self.close()
            yield each

    def close(self) -> None:
        """End the pilot, and begin none."""
        self._missing = ()
        if self._pilots is not None:
            self._pilots.shutdown(cancel_futures=True)
            self._pilots = None


def _follow(
    attempts: Iterable[Settled], missing: int, plan: Plan, folder: Path, progress: Report, tell: _Tell
) -> dict[PlannedRun, str]:
    """Report each attempt; return the runs that failed for good."""
    crashed: dict[PlannedRun, str] = {}
    over = len(plan.runs) - missing
    if missing:
        progress("sweeping", over / len(plan.runs))
    for settled in attempts:
        run, error = settled.run, settled.outcome.error
        if not error and not store.run_file(folder, run.run_id).exists():
            raise SweepError(
                f"run {run.run_id} is done, but its file is not in {folder}: the workers must share that folder"
            )
        if error:
            what = "trying again" if settled.again else f"given up after attempt {settled.attempts}"
            tell(f"run {run.run_id} (point {run.point}, seed {run.seed}): {error}; {what}")
        if settled.again:
            continue
        if error:
            crashed[run] = error
            store.write_crash(folder, run.run_id, settled.attempts, error, stalled=settled.outcome.stalled)
        over += 1
        progress("sweeping", over / len(plan.runs))
    return crashed


def _about(plan: Plan, provenance: Provenance) -> dict[str, Any]:
    scenario = plan.scenario
    return {
        "name": scenario.name,
        "description": scenario.description,
        "scenario_file": provenance.file,
        "scenario": scenario.model_dump(mode="json"),
        "overrides": list(provenance.overrides),
        "parameters": [] if scenario.sweep is None else scenario.sweep.paths,
        "points": [{"point": point.index, "values": point.values} for point in plan.points],
        "seeds": plan.seeds,
        "runs": [vars(run) for run in plan.runs],
        "versions": {"fedsim": __version__, "python": platform.python_version()},
        "platform": platform.platform(),
    }


def default_sweep_directory(scenario: Scenario) -> Path:
    """Return where a sweep is kept unless another folder is asked for: ``sweeps/NAME``."""
    return Path("sweeps") / name_of_file(scenario.name, "sweep")
