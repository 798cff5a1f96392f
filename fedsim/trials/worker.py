"""What a worker does: one run, and the file with its results, if it reads the same files and modules as the driver.

A mark lies next to the results while a run is under way. It tells the driver that the run has begun; the driver removes
it to end the run, which the worker notices at its next report of progress.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from fedsim._version import __version__
from fedsim.common.errors import FedsimError, RunError, StalledError, told
from fedsim.common.files import hash_of
from fedsim.scenario import Scenario, let_import_from
from fedsim.trials.own_modules import import_afresh, made_otherwise, with_imports

AT: ContextVar[str] = ContextVar("AT", default="")
"""What a cluster calls the worker that does this task."""


@dataclass(frozen=True)
class Inputs:
    """SHA-256 hashes of the files, by path, and modules, by name, that a run reads; and the version of fedsim."""

    files: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    version: str = __version__


def inputs_of(scenario: Scenario) -> Inputs:
    """Hash what a scenario names; what does not exist is left out."""
    files = {str(scenario.folder / name): digest for name, digest in scenario.files().items() if digest is not None}
    return Inputs(files, with_imports(scenario.modules()))


def this_worker() -> str:
    """Return the name of this process in messages."""
    return f"the worker {socket.gethostname()}:{os.getpid()}"


def check_inputs(inputs: Inputs, *, imported: bool = False) -> None:
    """Raise a `RunError` with this worker's name if it does not read, or has `imported`, what the driver has read."""
    here = this_worker()
    if inputs.version != __version__:
        other = f"{__version__}, and the sweep {inputs.version}"
        raise RunError(f"{here} has fedsim {other}; install the same version on both")
    try:
        for path, digest in inputs.files.items():
            _compare(here, path, hash_of(Path(path)), digest)
        modules = with_imports(inputs.modules)
        for name in {**inputs.modules, **modules}:
            _compare(here, f"the module {name}", modules.get(name), inputs.modules.get(name, ""))
        for name in made_otherwise(inputs.modules) if imported else ():
            _compare(here, f"the module {name}", "", inputs.modules[name])
    except OSError as error:
        raise RunError(f"{here} cannot read {error.filename}: {error.strerror or error}") from None


def _compare(here: str, what: str, read: str | None, expected: str) -> None:
    if read is None:
        raise RunError(f"{here} does not find {what}, which the scenario names; it must be where every worker finds it")
    if read != expected:
        raise RunError(
            f"{here} reads another content of {what} than the sweep began with: it was changed meanwhile, or is another"
            " one there; run the sweep again with the right one"
        )


@dataclass(frozen=True)
class Task:
    """A run as it is sent to a worker."""

    run_id: str  # names the file of its results
    scenario: Scenario  # with the run's seed and its permissions
    folder: str  # the sweep directory, an absolute path that all workers share
    import_from: tuple[str, ...] = ()  # folders in which the user's own modules are found
    inputs: Inputs = field(default_factory=Inputs)  # what the run must find on the worker


@dataclass(frozen=True)
class RunOutcome:
    """What went wrong with a run, empty if nothing did; `final` if another attempt would fail in the same way.

    A run that `stalled`, or took no report, would do so in every later sweep too.
    """

    error: str = ""
    final: bool = False
    stalled: bool = False
    worker: str = ""  # what a cluster calls the worker, if that could not begin the run


class EndedError(FedsimError):
    """The driver has ended the run."""


def work(task: Task) -> RunOutcome:
    """Do a run and write its results, unless they exist; errors are returned, not raised."""
    from fedsim.run.simulate import simulate
    from fedsim.trials.store import mark_of, run_file, write_curves, write_run_results

    folder = Path(task.folder)
    if run_file(folder, task.run_id).exists():
        return RunOutcome()
    mark = mark_of(folder, task.run_id)
    here = AT.get()

    def look(_what: str, _share: float, _beside: str = "", /) -> None:
        if not mark.exists():
            raise EndedError("ended by the driver of the sweep")

    try:
        mark.touch()
    except OSError as error:
        why = f"{this_worker()} cannot write to {folder}, which it must share: {error.strerror or error}"
        return RunOutcome(why, worker=here)
    try:
        let_import_from(task.import_from)
        check_inputs(task.inputs)
        import_afresh(task.inputs.modules)
        here = ""
        result = simulate(task.scenario, report=look)
        check_inputs(task.inputs, imported=True)  # they may have been changed since
        if result.failure:
            return RunOutcome(result.failure, final=True, stalled=True)
        if result.learning is not None and (trained := task.scenario.learning) is not None:
            learning = result.learning.filter(result.learning["optimizer"].ne_missing(trained.twin))
            write_curves(folder, task.run_id, learning)
        write_run_results(folder, task.run_id, task.scenario.seed, result.metrics)
    except (RunError, EndedError) as error:
        return RunOutcome(str(error), worker=here)
    except FedsimError as error:
        return RunOutcome(str(error), final=True, stalled=isinstance(error, StalledError))
    except BaseException as error:  # noqa: BLE001  a plug-in can raise anything
        return RunOutcome(told(error))
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)
    return RunOutcome()
