"""What a worker does: one run, and the file with its results."""

from dataclasses import dataclass
from pathlib import Path

from fedsim.common.errors import FedsimError, RunError
from fedsim.scenario import Scenario
from fedsim.scenario.imports import let_import_from


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
    """

    run_id: str
    scenario: Scenario
    folder: str
    import_from: tuple[str, ...] = ()


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


def work(task: Task) -> RunOutcome:
    """Do a run and write its results, unless they are there; never raises, since the answer has to travel back."""
    from fedsim.experiment.run import simulate
    from fedsim.sweeps.store import run_file, write_run

    folder = Path(task.folder)
    if run_file(folder, task.run_id).exists():
        return RunOutcome()
    let_import_from(task.import_from)
    try:
        result = simulate(task.scenario)
        write_run(folder, task.run_id, task.scenario.seed, result.metrics)
    except FedsimError as error:
        return RunOutcome(str(error), final=not isinstance(error, RunError))
    except Exception as error:  # noqa: BLE001  whatever a problem or an optimizer of the user's own may raise
        return RunOutcome(f"{type(error).__name__}: {error}")
    return RunOutcome()
