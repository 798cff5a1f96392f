"""From a scenario to its result: simulate, measure, train; in memory, or in a run directory that can be resumed."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fedsim.common.arguments import whole
from fedsim.common.errors import AfterwardsError, FedsimError, StalledError, of_job, where
from fedsim.common.files import pasteable, remove, sole_writer, write_text
from fedsim.common.instants import readable_time
from fedsim.common.json_files import as_json
from fedsim.common.progress import Report, in_notebooks, silent
from fedsim.log import Fingerprint
from fedsim.log.journal import STATE, TABLES, Journal, StoredLog, damaged
from fedsim.log.recorder import InMemoryLog, LogSink
from fedsim.run.budget import check_log_size
from fedsim.run.evaluate import evaluate, learner_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.files import (
    JOBS,
    MANIFEST,
    PAGE,
    UNFINISHED,
    Provenance,
    about_tables,
    check_identity,
    identity,
    open_run_directory,
)
from fedsim.run.jobs import together, write_together
from fedsim.run.load import load
from fedsim.run.measured import federation_of_log
from fedsim.run.preflight import buildable, checked, notes_of
from fedsim.run.run import Run, write_page, write_run
from fedsim.scenario import GivenScenario, Scenario, as_scenario
from fedsim.scenario.stop import Counts
from fedsim.simulation import Progress, simulate_into
from fedsim.simulation.engine import Simulation
from fedsim.simulation.jobs import simulate_jobs

_SECONDS_BETWEEN = 0.1
_BEGUN = "run.json"
_TRAINING = "training.npz"
_Tell = Callable[[str], None]


def simulate(
    scenario: GivenScenario, *, replicate: int = 0, seed: int | None = None, report: Report | None = None
) -> Run:
    """Simulate a scenario, or measure its log, and return the run, with theory beside it and trained optimizers.

    Parameters
    ----------
    scenario
        What to run: a scenario, the name of its file, or a mapping with its keys.
    replicate
        Which repetition, from 0: another one has other draws, the same one the same bytes.
    seed
        In place of the scenario's own.
    report
        Called with what is being done, and how much of it is done; by default a notebook shows a bar.

    Raises
    ------
    ScenarioError
        If the scenario cannot work, as far as that can be known beforehand.
    ChainError
        If a convergence study asks for a separation that cannot be kept.
    StalledError
        If the federation can never make progress again.
    LearningError
        If a problem or an optimizer fails.

    >>> len(simulate({"stop": {"rounds": 50}, "population": [{"devices": 40}], "server": {"cohort": 4}}).participations)
    200
    """
    scenario, replicate = as_scenario(scenario, several=True), whole("replicate", replicate)
    if scenario.log is not None:
        return measure_log(scenario)[0]
    if seed is not None:
        scenario = scenario.with_values({"seed": whole("seed", seed)})
    with in_notebooks() if report is None else nullcontext(report) as progress:
        federations, runs = checked(scenario, replicate), dict[str, Run]()
        for federation in federations.values():
            check_log_size(federation.scenario)
            buildable(federation.scenario)
        logs = {name: InMemoryLog() for name in federations}
        for name, (ended_s, stalled) in _run(scenario, federations, logs, progress).items():
            logs[name].ended_s = ended_s
            if stalled is not None:
                error = StalledError(of_job(name, str(stalled))) if name else stalled
                error.log = logs[name]
                raise error
            runs[name] = evaluate(federations[name], logs[name], progress)
        return runs.get("") or together(scenario, runs, replicate, progress)


def measure_log(scenario: Scenario) -> tuple[Run, tuple[str, ...]]:
    """Return the run that the `log` of a scenario is, and how it was read; errors are those of `federation_of_log`."""
    federation, log, names, notes = federation_of_log(scenario)
    run = evaluate(federation, log)
    return replace(run, clients=run.clients.with_columns(device=names)), notes


def _run(
    scenario: Scenario, federations: Mapping[str, PreparedFederation], sinks: Mapping[str, LogSink], progress: Report
) -> dict[str, tuple[float, StalledError | None]]:
    """Simulate a scenario, or its jobs, into a sink each; return when each ended (s), and its error if it stalled."""
    of_rounds = progress_reporter(scenario, progress)
    if scenario.jobs:
        ready = {name: (each.scenario, each.population, each.devices) for name, each in federations.items()}
        return simulate_jobs(sinks, scenario, ready, next(iter(federations.values())).replicate, of_rounds)
    ((name, federation),) = federations.items()
    parts = federation.population, federation.replicate, of_rounds, federation.devices, learner_of(federation)
    try:
        return {name: (simulate_into(sinks[name], Simulation(scenario, *parts)), None)}
    except StalledError as error:
        return {name: (error.ended_s, error)}


def progress_reporter(scenario: Scenario, progress: Report) -> Progress:
    """Return a callback that reports the progress of a simulation: simulated time, rounds, and their pace."""
    stop = scenario.stop
    of_how_many = f" of {stop.most_rounds:,}" if stop.most_rounds < math.inf else ""
    first: tuple[int, float] | None = None
    tenth, last = -1, 0.0

    def simulated(counts: Counts, now_s: float) -> None:
        nonlocal first, tenth, last
        rounds = counts.rounds
        now = time.monotonic()
        first = first or (rounds, now)
        share = stop.share(counts, now_s)
        if int(share * 10) == tenth and now - last < _SECONDS_BETWEEN:  # the words can take longer than a round
            return
        tenth, last = int(share * 10), now
        pace = (rounds - first[0]) / max(now - first[1], 1e-3)
        words = [f"{rounds:,}{of_how_many} rounds", f"{readable_time(now_s)} simulated"]
        words += [f"{pace:,.{0 if pace >= 10 else 1}f} rounds/s"] if rounds > first[0] else []
        progress("simulating", share, ", ".join(words))

    return simulated


def record(
    scenario: Scenario,
    directory: Path,
    provenance: Provenance,
    *,
    resume: bool = False,
    page: bool = True,
    progress: Report = silent,
    tell: _Tell = lambda _: None,
    chart_failed: _Tell | None = None,
    answered: Callable[[Any], None] = lambda _: None,
    journal_of: Callable[[Path, str], Journal] = Journal,
) -> Run:
    """Run a scenario into a directory, report included unless no `page` is wanted.

    Memory does not grow with the log, except for training and a few columns of the rounds. The directory has the same
    files, byte for byte, as that of `Run.save` with a report, however often the run was interrupted; only the wall
    time in the manifest, which is added to the provenance, differs. With `resume` it goes on with a run of the same
    scenario that the directory holds, if it holds one. `chart_failed`, by default `tell`, gets a message for each chart
    of the scenario's own that failed, and `answered` the answer, unless the run was complete before.

    A `RunError` says that the directory cannot be written, another process writes to it, or the run that is to be
    resumed is another one or is damaged; an `AfterwardsError`, that something unforeseen fails after the simulation,
    whose tables are kept. Other errors are those of `fedsim.simulate`.
    """
    draw = partial(write_page, plugins=scenario.permissions.plugins, tell=chart_failed or tell)
    if scenario.log is not None:
        return _record_log(scenario, directory, provenance, tell, partial(draw, answered=answered) if page else None)
    complete = resume and _found_complete(directory, scenario)
    if complete and not (directory / UNFINISHED).exists():
        tell(f"{directory} is complete: there is nothing left to do")
        return load(directory)
    federations = checked(scenario)
    for federation in federations.values():
        buildable(federation.scenario)  # whose data this machine may lack
    for name, federation in federations.items():
        for note in notes_of(federation, name):
            tell(note)
    again = provenance.command("run", "--out", pasteable(str(directory)), "--resume")
    with sole_writer(directory, "run"):
        if resume and _found_complete(directory, scenario):  # but for its report
            run = load(directory)
        else:
            journals = _simulated(scenario, directory, federations, journal_of, progress, tell, resume=resume)
            with _saying_how_to_go_on(again):
                runs = dict[str, Run]()
                for name, federation in federations.items():
                    folder, journal, origin = _folder(directory, name), journals[name], Provenance()
                    if not name:
                        origin = replace(provenance, wall_time_s=round(journal.wall_s, 3))
                    runs[name] = _measured(folder, federation, journal, progress, origin)
                    if name and page:
                        draw(runs[name], folder / PAGE)
                run = runs.get("") or write_together(scenario, runs, journals, directory, provenance, progress)
        del federations, federation  # of 10^8 devices the page needs the memory
        with _saying_how_to_go_on(again):
            if page:
                progress("drawing the report", 0.0)
                draw(run, directory / PAGE, answered=answered)
                progress("drawing the report", 1.0)
        for leftover in directory.glob(".*.partial"):
            remove(leftover)  # of a run that was killed
        remove(directory / UNFINISHED)
    return run


def _record_log(
    scenario: Scenario, directory: Path, provenance: Provenance, tell: _Tell, draw: Callable[[Run, Path], object] | None
) -> Run:
    """Measure the log of a scenario, and write its run directory."""
    run, notes = measure_log(scenario)
    for note in notes:
        tell(note)
    run = load(run.save(directory, provenance))
    if draw is not None:
        draw(run, directory / PAGE)
    return run


def _folder(directory: Path, name: str) -> Path:
    """Return the run directory of a job; without a name that of a single server."""
    return directory / JOBS / name if name else directory


def _simulated(
    scenario: Scenario,
    directory: Path,
    federations: Mapping[str, PreparedFederation],
    journal_of: Callable[[Path, str], Journal],
    progress: Report,
    tell: _Tell,
    *,
    resume: bool,
) -> dict[str, Journal]:
    """Simulate into a journal for each server, from where an interrupted run stands, and put their tables in place."""
    unfinished, ours = directory / UNFINISHED, identity(scenario, 0)
    of = {name: f"{name}\n{as_json(ours)}" for name in federations}
    if resume and (unfinished / _BEGUN).exists():
        check_identity(directory, unfinished / _BEGUN, ours)
        if "" in federations and not (unfinished / STATE).exists():
            tell("the interrupted run had not kept a state yet: beginning anew")
    else:
        open_run_directory(directory)
    journals = {name: journal_of(unfinished / name, of[name]) for name in federations}
    write_text(unfinished / _BEGUN, as_json(ours))
    if all(journal.ended_s is not None for journal in journals.values()):
        tell("the simulation is over and is kept; it is measured anew")
        for name, journal in journals.items():
            journal.check_tables(_folder(directory, name))
        return journals
    for name in filter(None, journals):  # no state is kept of several servers, each in the midst of a round
        remove(unfinished / name)
        journals[name] = journal_of(unfinished / name, of[name])
        open_run_directory(_folder(directory, name))
    first = next(iter(journals.values()))
    if first.state is not None:
        tell(f"going on at round {int(first.state['number']):,}")
    with nullcontext() if first.state is None else _blaming(first.file):
        over = _run(scenario, federations, journals, progress)
    for name, (ended_s, error) in over.items():
        about = about_tables(federations[name].scenario, 0)
        journals[name].close(_folder(directory, name), ended_s, str(error or ""), about)
    return journals


@contextmanager
def _blaming(state: Path) -> Iterator[None]:
    """Turn an unforeseen failure into an error of the state that a run went on from: somebody has made that up."""
    try:
        yield
    except FedsimError:
        raise
    except Exception as failed:
        raise damaged(state, where(failed)) from failed


def _measured(
    folder: Path, federation: PreparedFederation, journal: Journal, progress: Report, provenance: Provenance
) -> Run:
    """Measure and train one server, and write its run directory."""
    log = StoredLog(folder, journal.ended_s or 0.0)
    fingerprint = Fingerprint(log.participations.collect_schema())
    checkpoint = journal.file.with_name(_TRAINING), journal.log
    run = evaluate(federation, log, progress, fingerprint.add, checkpoint)
    origin = replace(provenance, stalled=journal.stalled)
    return write_run(run, folder, origin, there=TABLES, fingerprints={"participations": fingerprint.hexdigest()})


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


def _found_complete(directory: Path, scenario: Scenario) -> bool:
    manifest = directory / MANIFEST
    if manifest.exists():
        check_identity(directory, manifest, identity(scenario, 0))
    return manifest.exists()
