"""What a worker does: one run, and the file with its results.

A mark lies next to the results while a run is under way. It tells the driver that the run has begun; the driver removes
it to end the run, which the worker notices at its next report of progress.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.common.errors import FedsimError, RunError
from fedsim.scenario import Scenario, let_import_from
from fedsim.sweeps.inputs import Inputs, check_inputs, import_afresh, this_worker


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
    """What went wrong with a run, empty if nothing did; `final` if another attempt would fail in the same way."""

    error: str = ""
    final: bool = False


class EndedError(FedsimError):
    """The driver has ended the run."""


def work(task: Task) -> RunOutcome:
    """Do a run and write its results, unless they exist; errors are returned, not raised."""
    from fedsim.experiment.run import simulate
    from fedsim.sweeps.store import mark_of, run_file, write_run_results

    folder = Path(task.folder)
    if run_file(folder, task.run_id).exists():
        return RunOutcome()
    mark = mark_of(folder, task.run_id)

    def look(_what: str, _share: float, _beside: str = "", /) -> None:
        if not mark.exists():
            raise EndedError("ended by the driver of the sweep")

    try:
        mark.touch()
    except OSError as error:
        return RunOutcome(f"{this_worker()} cannot write to {folder}, which it must share: {error.strerror or error}")
    try:
        let_import_from(task.import_from)
        check_inputs(task.inputs)
        import_afresh(task.inputs.modules)
        result = simulate(task.scenario, report=look)
        check_inputs(task.inputs)  # they may have been changed since
        write_run_results(folder, task.run_id, task.scenario.seed, result.metrics)
    except (RunError, EndedError) as error:
        return RunOutcome(str(error))
    except FedsimError as error:
        return RunOutcome(str(error), final=True)
    except Exception as error:  # noqa: BLE001  a plug-in can raise anything
        return RunOutcome(f"{type(error).__name__}: {error}")
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)
    return RunOutcome()
