"""From a scenario to its result: simulate, measure, train; in memory, or in a run directory that can be resumed."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from fedsim.analysis.metrics.own import Own
from fedsim.common.arguments import whole
from fedsim.common.errors import AfterwardsError, FedsimError, StalledError, where
from fedsim.common.files import pasteable, remove, sole_writer, write_lazily, write_text
from fedsim.common.instants import readable_time
from fedsim.common.json_files import as_json, read_figures, read_object
from fedsim.common.progress import Report, in_notebooks, silent
from fedsim.experiment.budget import check_log_size
from fedsim.experiment.cautions import why_nothing
from fedsim.experiment.evaluation import evaluate, learner_of
from fedsim.experiment.finished import JOBS, MANIFEST, METRICS, UNFINISHED, open_finished
from fedsim.experiment.jobs import together
from fedsim.experiment.preflight import Views, checked, made_ready, notes_of
from fedsim.experiment.result import PageData, Result, write_run_report
from fedsim.experiment.run_directory import (
    Provenance,
    about_tables,
    check_identity,
    identity,
    open_run_directory,
    write_run,
)
from fedsim.log.journal import STATE, TABLES, Journal, stored_log
from fedsim.log.recorder import InMemoryLog, LogSink
from fedsim.scenario import Scenario, as_scenario
from fedsim.simulation import Progress, simulate_into, simulate_log
from fedsim.simulation.jobs import simulate_jobs

_SECONDS_BETWEEN = 0.1
_BEGUN = "run.json"
_Tell = Callable[[str], None]


def simulate(
    scenario: Scenario | str | os.PathLike[str],
    *,
    replicate: int = 0,
    seed: int | None = None,
    report: Report | None = None,
) -> Result:
    """Simulate a scenario, measure its participation against theory, and train its optimizers.

    Parameters
    ----------
    scenario
        What to run, or the name of its file.
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
    """
    scenario, replicate = as_scenario(scenario, jobs=True), whole("replicate", replicate)
    if seed is not None:
        scenario = scenario.with_values({"seed": whole("seed", seed)})
    with in_notebooks() if report is None else nullcontext(report) as told:
        if scenario.jobs:
            return _simulate_jobs(scenario, replicate, told)
        ready = made_ready(scenario, replicate)
        check_log_size(scenario)
        learner = learner_of(scenario, ready.population, replicate)
        told_of = progress_reporter(scenario, told)
        log = simulate_log(scenario, ready.population, replicate, told_of, ready.devices, learner)
        return Result(**vars(evaluate(scenario, ready, log, replicate, told)))


def _simulate_jobs(scenario: Scenario, replicate: int, report: Report) -> Result:
    views, sinks, outcomes = checked(scenario, replicate), {name: InMemoryLog() for name in scenario.jobs}, {}
    for view, _ in views.values():
        check_log_size(view)
    for name, (ended_s, stalled) in _run_jobs(scenario, views, sinks, replicate, report).items():
        if stalled is not None:
            raise StalledError(f"job {name!r}: {stalled}")
        outcomes[name] = evaluate(*views[name], sinks[name].log(ended_s), replicate, report)
    whole = together(scenario, outcomes, replicate, report)
    whole = replace(whole, participations=whole.participations.lazy().collect())
    return Result(**vars(whole), jobs={name: Result(**vars(each)) for name, each in outcomes.items()})


def _run_jobs(
    scenario: Scenario, views: Views, sinks: Mapping[str, LogSink], replicate: int, report: Report
) -> dict[str, tuple[float, StalledError | None]]:
    ready = {name: (view, made.population, made.devices) for name, (view, made) in views.items()}
    return simulate_jobs(sinks, scenario, ready, replicate, progress_reporter(scenario, report))


def progress_reporter(scenario: Scenario, report: Report) -> Progress:
    """Return a callback that reports the progress of a simulation: simulated time, rounds, and their pace."""
    stop = scenario.stop
    of_how_many = f" of {stop.rounds:,}" if stop.rounds else ""
    first: tuple[int, float] | None = None
    tenth, said = -1, 0.0

    def simulated(rounds: int, now_s: float) -> None:
        nonlocal first, tenth, said
        now = time.monotonic()
        first = first or (rounds, now)
        share = stop.share(rounds, now_s)
        if int(share * 10) == tenth and now - said < _SECONDS_BETWEEN:  # the words can take longer than a round
            return
        tenth, said = int(share * 10), now
        pace = (rounds - first[0]) / max(now - first[1], 1e-3)
        words = [f"{rounds:,}{of_how_many} rounds", f"{readable_time(now_s)} simulated"]
        words += [f"{pace:,.{0 if pace >= 10 else 1}f} rounds/s"] if rounds > first[0] else []
        report("simulating", share, ", ".join(words))

    return simulated


@dataclass(frozen=True)
class Recording:
    """A complete run directory: its report, its figures by name, and its own metrics if they were made."""

    directory: Path
    page: Path
    metrics: dict[str, float]
    own: Sequence[Own] | None = field(default=None, compare=False)
    said: Sequence[str] = field(default=(), compare=False)  # what its report answers, and what it warns of

    @property
    def failure(self) -> str:
        """Why the run is no success although it ended, because it stalled or took no report; "" where it is one."""
        stalled = read_object(self.directory / MANIFEST).get("stalled")
        return f"{stalled}. The log until then is kept" if stalled else why_nothing(self.metrics)


def record(
    scenario: Scenario,
    directory: Path,
    provenance: Provenance,
    *,
    resume: bool = False,
    report: Report = silent,
    tell: _Tell = lambda _: None,
    chart_failed: _Tell | None = None,
    journal_of: Callable[[Path], Journal] = Journal,
) -> Recording:
    """Run a scenario into a directory, report included.

    Memory does not grow with the log, except for training and a few columns of the rounds. The directory has the same
    files, byte for byte, as that of `Result.save` with a report, however often the run was interrupted; only the wall
    time in the manifest, which is added to the provenance, differs. With `resume` it goes on with a run of the same
    scenario that the directory holds, if it holds one. `chart_failed`, by default `tell`, gets a message for each chart
    of the scenario's own that failed.

    A `RunError` says that the directory cannot be written, another process writes to it, or the run that is to be
    resumed is another one or is damaged; an `AfterwardsError`, that something unforeseen fails after the simulation,
    whose tables are kept. Other errors are those of `fedsim.simulate`.
    """
    chart_failed = chart_failed or tell
    if scenario.jobs and not (resume and _found_complete(directory, scenario)):
        return _record_jobs(scenario, directory, provenance, resume, report, tell, chart_failed, journal_of)
    if resume and _found_complete(directory, scenario) and not (directory / UNFINISHED).exists():
        metrics = open_finished(directory).metrics
        tell(f"{directory} is complete: there is nothing left to do")
        return Recording(directory, directory / "report.html", metrics)
    ready = made_ready(scenario)
    for note in [*ready.notes, *notes_of(scenario, ready.population)]:
        tell(f"note: {note}")
    with sole_writer(directory, "run"):
        unfinished = directory / UNFINISHED
        again = provenance.command("run", "--out", pasteable(str(directory)), "--resume")
        if resume and _found_complete(directory, scenario):  # but for its report
            with _saying_how_to_go_on(again):
                return _report(directory, scenario, ready.own, report, chart_failed)
        if resume and (unfinished / _BEGUN).exists():
            check_identity(directory, unfinished / _BEGUN, identity(scenario, 0))
            if not (unfinished / STATE).exists():
                tell("the interrupted run had not kept a state yet: beginning anew")
        else:
            open_run_directory(directory)
        journal = journal_of(unfinished)
        write_text(unfinished / _BEGUN, as_json(identity(scenario, 0)))
        if journal.ended_s is None:
            if journal.state is not None:
                tell(f"going on at round {int(journal.state['number']):,}")
            stalled = ""
            try:
                told_of, learner = progress_reporter(scenario, report), learner_of(scenario, ready.population)
                ended_s = simulate_into(journal, scenario, ready.population, 0, told_of, ready.devices, learner)
            except StalledError as error:
                ended_s, stalled = error.ended_s, str(error)
            journal.close(directory, ended_s, stalled, about_tables(scenario, 0))
        else:
            tell("the simulation is over and is kept; measuring and training begin anew")
            ended_s = journal.ended_s
            journal.check_tables(directory)
        with _saying_how_to_go_on(again):
            log = stored_log(directory, ended_s)
            data = PageData(scenario, ready.population, log)
            outcome = evaluate(scenario, ready, log, 0, report, data.begin)
            origin = replace(provenance, wall_time_s=round(journal.wall_s, 3), stalled=journal.stalled)
            known = {"participations": data.fingerprint.hexdigest()}
            write_run(directory, outcome, origin, there=TABLES, known=known, own=ready.own)
            del outcome  # the page is drawn from the directory
            return _report(directory, scenario, ready.own, report, chart_failed, data)


def _record_jobs(
    scenario: Scenario,
    directory: Path,
    provenance: Provenance,
    resume: bool,
    report: Report,
    tell: _Tell,
    chart_failed: _Tell,
    journal_of: Callable[[Path], Journal],
) -> Recording:
    """Run several jobs into a directory: a run directory for each, and above these the tables of all."""
    views, unfinished = checked(scenario), directory / UNFINISHED
    for name, (view, ready) in views.items():
        for note in [*ready.notes, *notes_of(view, ready.population)]:
            tell(f"note: job {name!r}: {note}")
    with sole_writer(directory, "run"):
        if resume and (unfinished / _BEGUN).exists():
            check_identity(directory, unfinished / _BEGUN, identity(scenario, 0))
        else:
            open_run_directory(directory)
        journals = {name: journal_of(unfinished / name) for name in views}
        write_text(unfinished / _BEGUN, as_json(identity(scenario, 0)))
        if any(journal.ended_s is None for journal in journals.values()):
            for name in views:  # no state is kept of several servers, each in the midst of a round
                remove(unfinished / name)
                journals[name] = journal_of(unfinished / name)
            for name, (ended_s, error) in _run_jobs(scenario, views, journals, 0, report).items():
                folder = open_run_directory(directory / JOBS / name)
                journals[name].close(folder, ended_s, str(error or ""), about_tables(views[name][0], 0))
        else:
            tell("the simulation is over and is kept; measuring and training begin anew")
            for name in views:
                journals[name].check_tables(directory / JOBS / name)
        with _saying_how_to_go_on(provenance.command("run", "--out", pasteable(str(directory)), "--resume")):
            outcomes = {}
            for name, (view, ready) in views.items():
                folder = directory / JOBS / name
                log = stored_log(folder, journals[name].ended_s or 0.0)
                data = PageData(view, ready.population, log)
                outcomes[name] = evaluate(view, ready, log, 0, report, data.begin)
                known = {"participations": data.fingerprint.hexdigest()}
                origin = Provenance(stalled=journals[name].stalled)
                write_run(folder, outcomes[name], origin, there=TABLES, known=known, own=ready.own)
                write_run_report(folder, plugins=scenario.permissions.plugins, tell=chart_failed, data=data)
            whole = together(scenario, outcomes, 0, report)
            path = directory / "participations.parquet"
            write_lazily(path, whole.participations.lazy(), about_tables(scenario, 0))
            stalled = "; ".join(f"job {name!r}: {each.stalled}" for name, each in journals.items() if each.stalled)
            wall_s = round(max(each.wall_s for each in journals.values()), 3)
            origin = replace(provenance, wall_time_s=wall_s, stalled=stalled)
            write_run(
                directory, replace(whole, participations=pl.scan_parquet(path, glob=False)), origin, there=[path.stem]
            )
            return _report(directory, scenario, (), report, chart_failed)


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
    directory: Path,
    scenario: Scenario,
    own: Sequence[Own],
    report: Report,
    chart_failed: _Tell,
    data: PageData | None = None,
) -> Recording:
    report("drawing the report", 0.0)
    said = list[str]()
    page = write_run_report(
        directory, plugins=scenario.permissions.plugins, tell=chart_failed, data=data, found=said.append
    )
    for leftover in directory.glob(".*.partial"):
        remove(leftover)  # of a run that was killed
    remove(directory / UNFINISHED)
    report("drawing the report", 1.0)
    return Recording(directory, page, read_figures(directory / METRICS), own, said)


def _found_complete(directory: Path, scenario: Scenario) -> bool:
    manifest = directory / MANIFEST
    if manifest.exists():
        check_identity(directory, manifest, identity(scenario, 0))
    return manifest.exists()
