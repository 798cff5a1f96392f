"""Runs a scenario into a run directory: its log is written while it runs, and an interrupted run can be resumed."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fedsim.common.errors import StalledError
from fedsim.common.files import write_text
from fedsim.common.json_files import as_json, read_figures
from fedsim.common.progress import Report, silent
from fedsim.experiment.preflight import preflight, privacy_notes
from fedsim.experiment.presentation import write_report
from fedsim.experiment.run import evaluate, telling
from fedsim.experiment.run_directory import (
    MANIFEST,
    METRICS,
    UNFINISHED,
    Provenance,
    check_identity,
    identity,
    open_run_directory,
    write_run,
)
from fedsim.log.journal import STATE, TABLES, Journal, stored_log
from fedsim.scenario import Scenario
from fedsim.simulation import simulate_into

_BEGUN = "run.json"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Recording:
    """A run directory that is complete.

    Attributes
    ----------
    directory, page
        Where it is, and its report.
    metrics
        Figures by name.
    """

    directory: Path
    page: Path
    metrics: dict[str, float]


def record(
    scenario: Scenario,
    directory: Path,
    provenance: Provenance,
    *,
    resume: bool = False,
    report: Report = silent,
    tell: Tell = lambda _: None,
) -> Recording:
    """Run a scenario into a directory, report included.

    The memory that it takes does not grow with the log, but for training and for a few columns of the rounds. The
    directory has the same files, byte for byte, as that of `Result.save` with a report, however often the run was
    interrupted; only the wall time in the manifest differs.

    Parameters
    ----------
    scenario
        What to run.
    directory
        Where.
    provenance
        For the manifest; its wall time is put in.
    resume
        Go on with a run of the same scenario that the directory holds, if it holds one.
    report, tell
        Told how much is done, as by `fedsim.simulate`, and what a person should know.

    Raises
    ------
    RunError
        If the directory cannot be written, or the run that is to be resumed is another one.
    FedsimError
        As from `fedsim.simulate`.
    """
    unfinished = directory / UNFINISHED
    if resume and _found_complete(directory, scenario):
        if unfinished.exists():  # but for its report
            return _report(directory, scenario, report, tell)
        tell(f"{directory} is complete: there is nothing left to do")
        return Recording(directory, directory / "report.html", read_figures(directory / METRICS))
    population = preflight(scenario)
    for note in privacy_notes(scenario, population):
        tell(f"note: {note}")
    if resume and (unfinished / _BEGUN).exists():
        check_identity(directory, unfinished / _BEGUN, identity(scenario, 0))
        if not (unfinished / STATE).exists():
            tell("the interrupted run had not kept a state yet: beginning anew")
    else:
        open_run_directory(directory)
    journal = Journal(unfinished)
    write_text(unfinished / _BEGUN, as_json(identity(scenario, 0)))
    if journal.ended_s is None:
        if journal.state is not None:
            tell(f"going on at round {int(journal.state['number']):,}")
        try:
            ended_s = simulate_into(journal, scenario, population, 0, telling(scenario, report))
        except StalledError:
            shutil.rmtree(unfinished)  # it would stall there again
            raise
        journal.close(directory, ended_s)
    else:
        tell("the simulation is over; going on with what follows")
        ended_s = journal.ended_s
    outcome = evaluate(scenario, population, stored_log(directory, ended_s), 0, report)
    origin = replace(provenance, wall_time_s=round(journal.wall_s, 3))
    write_run(directory, outcome, origin, there=TABLES)
    return _report(directory, scenario, report, tell)


def _report(directory: Path, scenario: Scenario, report: Report, tell: Tell) -> Recording:
    report("drawing the report", 0.0)
    page = write_report(directory, plugins=scenario.permissions.plugins, tell=tell)
    for leftover in [*directory.glob(".*.partial"), *directory.glob("figures/.*.partial")]:
        leftover.unlink()  # of a run that was killed
    shutil.rmtree(directory / UNFINISHED)
    report("drawing the report", 1.0)
    return Recording(directory, page, read_figures(directory / METRICS))


def _found_complete(directory: Path, scenario: Scenario) -> bool:
    manifest = directory / MANIFEST
    if manifest.exists():
        check_identity(directory, manifest, identity(scenario, 0))
    return manifest.exists()
