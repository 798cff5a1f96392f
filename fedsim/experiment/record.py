"""Runs a scenario into a run directory, which is written during the run, so that it can be resumed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedsim.analysis.metrics.own import Own
from fedsim.common.errors import AfterwardsError, FedsimError, StalledError, where
from fedsim.common.files import remove, sole_writer, write_text
from fedsim.common.json_files import as_json, read_figures
from fedsim.common.progress import Report, silent
from fedsim.experiment.finished import MANIFEST, METRICS, UNFINISHED, open_finished
from fedsim.experiment.preflight import Ready, made_ready, notes_of
from fedsim.experiment.presentation import PageData, write_run_report
from fedsim.experiment.run import evaluate, progress_reporter
from fedsim.experiment.run_directory import (
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
_Tell = Callable[[str], None]


@dataclass(frozen=True)
class Recording:
    """A complete run directory: its report, its figures by name, and its own metrics if they were made."""

    directory: Path
    page: Path
    metrics: dict[str, float]
    own: Sequence[Own] | None = field(default=None, compare=False)


def record(
    scenario: Scenario,
    directory: Path,
    provenance: Provenance,
    *,
    resume: bool = False,
    report: Report = silent,
    tell: _Tell = lambda _: None,
) -> Recording:
    """Run a scenario into a directory, report included.

    Memory does not grow with the log, except for training and a few columns of the rounds. The directory has the same
    files, byte for byte, as that of `Result.save` with a report, however often the run was interrupted; only the wall
    time in the manifest differs.

    Parameters
    ----------
    provenance
        For the manifest, which adds the wall time.
    resume
        Go on with a run of the same scenario that the directory holds, if it holds one.

    Raises
    ------
    RunError
        If the directory cannot be written, another process writes to it, or the run that is to be resumed is another
        one or is damaged.
    AfterwardsError
        If something unforeseen fails after the simulation; its tables are kept.
    FedsimError
        As from `fedsim.simulate`.
    """
    if resume and _found_complete(directory, scenario) and not (directory / UNFINISHED).exists():
        metrics = open_finished(directory).metrics
        tell(f"{directory} is complete: there is nothing left to do")
        return Recording(directory, directory / "report.html", metrics)
    ready = made_ready(scenario)
    for note in [*ready.notes, *notes_of(scenario, ready.population)]:
        tell(f"note: {note}")
    with sole_writer(directory, "run"):
        unfinished = directory / UNFINISHED
        again = provenance.command_here("--out", str(directory), "--resume") if provenance.file else ""
        if resume and _found_complete(directory, scenario):  # but for its report
            with _saying_how_to_go_on(again):
                return _report(directory, scenario, ready, report, tell)
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
                ended_s = simulate_into(
                    journal, scenario, ready.population, 0, progress_reporter(scenario, report), ready.devices
                )
            except StalledError:
                remove(unfinished)  # it would stall there again
                raise
            journal.close(directory, ended_s)
        else:
            tell("the simulation is over; going on with what follows")
            ended_s = journal.ended_s
            journal.check_tables(directory)
        with _saying_how_to_go_on(again):
            log = stored_log(directory, ended_s)
            data = PageData(scenario, ready.population, log)
            outcome = evaluate(scenario, ready, log, 0, report, data.begin)
            origin = replace(provenance, wall_time_s=round(journal.wall_s, 3))
            known = {"participations": data.fingerprint.hexdigest()}
            write_run(directory, outcome, origin, there=TABLES, known=known, own=ready.own)
            del outcome  # the page is drawn from the directory
            return _report(directory, scenario, ready, report, tell, data)


@contextmanager
def _saying_how_to_go_on(command: str) -> Iterator[None]:
    """Add to an error after the simulation that the tables are kept, and which command does the rest."""
    note = "the simulation is over and its tables are kept" + (f"; to go on from there: {command}" if command else "")
    try:
        yield
    except FedsimError as error:
        error.add_note(note)
        raise
    except Exception as error:
        afterwards = AfterwardsError(where(error))
        afterwards.add_note(note)
        raise afterwards from error


def _report(
    directory: Path, scenario: Scenario, ready: Ready, report: Report, tell: _Tell, data: PageData | None = None
) -> Recording:
    report("drawing the report", 0.0)
    page = write_run_report(directory, plugins=scenario.permissions.plugins, tell=tell, data=data)
    for leftover in directory.glob(".*.partial"):
        remove(leftover)  # of a run that was killed
    remove(directory / UNFINISHED)
    report("drawing the report", 1.0)
    return Recording(directory, page, read_figures(directory / METRICS), ready.own)


def _found_complete(directory: Path, scenario: Scenario) -> bool:
    manifest = directory / MANIFEST
    if manifest.exists():
        check_identity(directory, manifest, identity(scenario, 0))
    return manifest.exists()
