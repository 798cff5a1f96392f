"""What a worker does: one run, and the file with its results.

While it is at a run a mark lies beside the results. The driver sees by it that the run has begun, and takes it away to
end the run: at the next step that tells of progress, the worker notices.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.common.errors import FedsimError, RunError
from fedsim.scenario import Scenario
from fedsim.scenario.imports import let_import_from
from fedsim.sweeps.inputs import Inputs, check_inputs, import_afresh, this_worker


@dataclass(frozen=True)
class Task:
    """A run as it travels to a worker.

    Attributes
    ----------
    run_id
        Names the file of its results.
    scenario
        What to simulate, with the run's seed, and what it is allowed.
    folder
        The sweep directory, an absolute path on a file system that all workers share.
    import_from
        Folders in which modules of the user's own are found.
    inputs
        What the run must find where it is done.
    """

    run_id: str
    scenario: Scenario
    folder: str
    import_from: tuple[str, ...] = ()
    inputs: Inputs = field(default_factory=Inputs)


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run.

    Attributes
    ----------
    error
        What went wrong; empty if nothing did.
    final
        Whether another attempt would fail alike.
    """

    error: str = ""
    final: bool = False


class EndedError(FedsimError):
    """The driver has ended the run."""


def work(task: Task) -> RunOutcome:
    """Do a run and write its results, unless they are there; never raises, since the answer has to travel back."""
    from fedsim.experiment.run import simulate
    from fedsim.sweeps.store import mark_of, run_file, write_run

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
        write_run(folder, task.run_id, task.scenario.seed, result.metrics)
    except (RunError, EndedError) as error:
        return RunOutcome(str(error))
    except FedsimError as error:
        return RunOutcome(str(error), final=True)
    except Exception as error:  # noqa: BLE001  whatever a problem or an optimizer of the user's own may raise
        return RunOutcome(f"{type(error).__name__}: {error}")
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)
    return RunOutcome()
