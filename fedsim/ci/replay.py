"""Replays scenario files: runs them, judges their limits, and compares them with their lock files."""

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from fedsim.ci.drift import LockedValue, compare, unused, updated
from fedsim.ci.lock import Lock, LockError, lock_path, lock_text, platform_key, read_lock, write_lock
from fedsim.common.errors import FedsimError, RunError, ScenarioError, where
from fedsim.limits.verdict import Judgement, judge
from fedsim.scenario import Scenario
from fedsim.scenario.imports import open_scenario
from fedsim.scenario.permissions import NOTHING, Permissions
from fedsim.sweeps.executors.local import LocalProcesses, WorkerLostError, leaving_no_process

Status = Literal["pass", "warn", "fail", "bad", "crash", "lock", "skip"]
EXIT_CODES: Mapping[Status, int] = {"pass": 0, "warn": 0, "fail": 1, "bad": 2, "crash": 3, "lock": 4, "skip": 0}
_GRAVEST_FIRST: tuple[Status, ...] = ("crash", "bad", "fail", "lock", "warn", "pass", "skip")


@dataclass(frozen=True)
class Job:
    """One replicate of one file.

    Attributes
    ----------
    file, replicate
        What is run.
    tables
        Those to be hashed.
    permissions
        What the scenario is allowed.
    keep
        Where its run directory is to be written, with its report; None where it is not kept.
    """

    file: str
    replicate: int
    tables: tuple[str, ...]
    permissions: Permissions = NOTHING
    keep: Path | None = None


@dataclass(frozen=True)
class Measured:
    """What one run showed: its metrics, the hashes of its tables, and the seconds that it took."""

    metrics: Mapping[str, float]
    fingerprints: Mapping[str, str]
    wall_s: float


@dataclass(frozen=True)
class FileOutcome:
    """What a replay says about one file.

    Attributes
    ----------
    file
        The scenario file.
    status
        ``pass``; ``warn`` (only limits of severity warn were missed); ``fail`` (a limit was missed, or a figure has
        drifted); ``bad`` (the scenario is wrong); ``crash``; ``lock`` (missing or unused, with ``--locked``);
        ``skip`` (it wants data that this machine does not have, and leaves it to the machine to say where they lie).
    judgements
        Of each condition.
    comparisons
        Of each locked figure and table.
    errors
        Why it was not judged, for a person, with places where there are any.
    wall_s
        Seconds that its runs took, together.
    updated
        Whether the lock file was to be brought up to date.
    locked
        Whether a missing or unused lock counts.
    """

    file: Path
    status: Status
    judgements: Sequence[Judgement] = ()
    comparisons: Sequence[LockedValue] = ()
    errors: Sequence[str] = ()
    wall_s: float = 0.0
    updated: bool = False
    locked: bool = False


def collect(paths: Sequence[Path], permissions: Permissions = NOTHING) -> tuple[list[Path], list[Path]]:
    """Return the scenario files that paths name, and lock files in folders that belong to none.

    Folders are searched for ``*.fedsim.yaml``; hidden folders are left out, and links to folders are not followed.

    Raises
    ------
    RunError
        If a path is not there, a folder holds no scenario, or one in it is a link that leads outside and may not.
    """
    files: dict[Path, None] = {}
    orphans: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise RunError(f"{path} does not exist; give scenario files, or folders that hold *.fedsim.yaml")
            files[path] = None
            continue
        inside = list(_walk(path))
        scenarios = [file for file in inside if file.name.endswith(".fedsim.yaml")]
        if not scenarios:
            raise RunError(f"{path} holds no scenario: none of its files is called *.fedsim.yaml")
        for file in scenarios:
            if not (permissions.outside or file.resolve().is_relative_to(path.resolve())):
                raise RunError(f"{file} leads outside {path}; if you trust it, give --allow-outside")
        owned = {lock_path(file) for file in scenarios}
        files |= dict.fromkeys(scenarios)
        orphans |= {file: None for file in inside if file.name.endswith(".fedsim.lock.json") and file not in owned}
    return list(files), list(orphans)


def replay(
    files: Sequence[Path],
    orphans: Sequence[Path],
    *,
    update: bool,
    locked: bool,
    workers: int,
    permissions: Permissions = NOTHING,
    keep: Path | None = None,
) -> Generator[FileOutcome]:
    """Run scenario files in worker processes and judge them, in the order of the files.

    Parameters
    ----------
    files, orphans
        As `collect` returns them.
    update
        Bring the lock files up to date.
    locked
        A missing or unused lock is a failure.
    workers
        How many processes.
    permissions
        What the scenarios are allowed.
    keep
        A folder for the run directories of the first replicates; None keeps none.
    """
    loaded = {file: _load(file, permissions) for file in files}
    opened = {file: scenario for file, scenario in loaded.items() if isinstance(scenario, Scenario)}
    jobs = [job for file, scenario in opened.items() for job in jobs_of(file, scenario, keep)]
    measured: dict[str, dict[int, Measured | FileOutcome]] = {str(file): {} for file in files}
    with closing(_measure_all(jobs, workers)) as answers:
        for file, scenario in loaded.items():
            if isinstance(scenario, FileOutcome):
                yield replace(scenario, updated=update, locked=locked)
                continue
            own = measured[str(file)]
            while len(own) < scenario.replicates:
                job, answer = next(answers)
                measured[job.file][job.replicate] = answer
            yield conclude(file, scenario, [own[number] for number in sorted(own)], update=update, locked=locked)
    for orphan in orphans:
        yield _orphaned(orphan, update=update, locked=locked)


def measure(job: Job) -> Measured | FileOutcome:
    """Run one replicate; whatever goes wrong is an answer too."""
    from fedsim.experiment.presentation import write_report
    from fedsim.experiment.run import simulate
    from fedsim.learning.failures import AbsentDataError
    from fedsim.log import fingerprint

    began = time.monotonic()
    try:
        result = simulate(open_scenario(Path(job.file), job.permissions), replicate=job.replicate)
        if job.keep is not None:
            write_report(result.save(job.keep), plugins=job.permissions.plugins)
        prints = {name: fingerprint(table) for name, table in result.tables.items() if name in job.tables}
    except ScenarioError as error:
        return FileOutcome(Path(job.file), "bad", errors=tuple(map(str, error.mistakes)))
    except FedsimError as error:
        absent = isinstance(error, AbsentDataError) or isinstance(error.__cause__, AbsentDataError)
        return replace(_crashed(job, str(error)), status="skip" if absent else "crash")
    except Exception as error:  # noqa: BLE001 - a user's own optimizer can raise anything, and the others must go on
        return _crashed(job, where(error))
    return Measured(result.metrics, prints, time.monotonic() - began)


def conclude(
    file: Path,
    scenario: Scenario,
    answers: Sequence[Measured | FileOutcome],
    *,
    update: bool,
    locked: bool,
    lock: Lock | None = None,
) -> FileOutcome:
    """Judge the runs of one file, and write its lock file if that is asked for; `lock` is what it held, if known."""
    failures = [answer for answer in answers if isinstance(answer, FileOutcome)]
    runs = [answer for answer in answers if isinstance(answer, Measured)]
    outcome = partial(FileOutcome, file, wall_s=sum(run.wall_s for run in runs), updated=update, locked=locked)
    if failures:
        lines = dict.fromkeys(line for failure in failures for line in failure.errors)
        return outcome(failures[0].status, errors=tuple(lines))
    judgements = judge(scenario, [run.metrics for run in runs])
    path, platform = lock_path(file), platform_key()
    try:
        lock = read_lock(path, scenario.permissions) if lock is None else lock
        found = compare(scenario, lock, platform, runs[0].metrics, runs[0].fingerprints)
        new = updated(scenario, lock, platform, found)
        found += unused(scenario, lock, str(path))
        if update and (lock or new) and lock_text(new) != lock_text(lock):
            write_lock(path, new)
    except LockError as error:
        return outcome("lock", judgements, errors=(str(error),))
    except RunError as error:
        return outcome("bad", judgements, errors=(f"{path}: error: {error}",))
    reached: set[Status] = {"pass"}
    reached |= {"warn" if each.status == "warn" else "fail" for each in judgements if each.status in {"warn", "fail"}}
    reached |= {each.outcome(update=update, locked=locked) for each in found}
    return outcome(gravest(reached), judgements, found)


def gravest(statuses: set[Status]) -> Status:
    """Return the status that decides: crash, bad, fail, lock, warn, pass, skip."""
    return next((status for status in _GRAVEST_FIRST if status in statuses), "pass")


def _measure_all(jobs: Sequence[Job], workers: int) -> Generator[tuple[Job, Measured | FileOutcome]]:
    """Run jobs in processes and give what comes of each as it comes; one whose process dies is tried once more."""
    if not jobs:
        return
    pool = LocalProcesses(min(workers, len(jobs)))
    with leaving_no_process(partial(pool.shutdown, wait=False, cancel_futures=True)):
        running: dict[Future[Measured | FileOutcome], tuple[Job, bool]] = {
            pool.submit(measure, job): (job, False) for job in jobs
        }
        while running:
            # With a timeout: an interrupt that reaches another thread does not wake this one.
            for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                job, again = running.pop(future)
                try:
                    yield job, future.result()
                except WorkerLostError as error:
                    if again:
                        yield job, _crashed(job, f"{error}, twice")
                    else:
                        running[pool.submit(measure, job)] = job, True
        pool.shutdown()


def jobs_of(file: Path, scenario: Scenario, keep: Path | None = None) -> list[Job]:
    """Return the replicates of a file; tables are compared in the first of them alone, and it alone is kept."""
    tables = tuple(scenario.drift.fingerprint) if scenario.drift else ()
    may = scenario.permissions
    place = None if keep is None else keep / kept_as(file)
    return [
        Job(str(file), number, () if number else tables, may, None if number else place)
        for number in range(scenario.replicates)
    ]


def kept_as(file: Path) -> Path:
    """Return the name of a file's run directory: its path without suffix, within the folder that it is kept in."""
    parts = [part for part in file.parts if part not in {file.anchor, ".."}]
    return Path(*parts[:-1], file.name.removesuffix(".yaml").removesuffix(".fedsim"))


def _crashed(job: Job, why: str) -> FileOutcome:
    return FileOutcome(Path(job.file), "crash", errors=(f"{job.file}: error: {why}",))


def _load(file: Path, may: Permissions) -> Scenario | FileOutcome:
    try:
        return open_scenario(file, may)
    except ScenarioError as error:
        return FileOutcome(file, "bad", errors=tuple(map(str, error.mistakes)))


def _orphaned(path: Path, *, update: bool, locked: bool) -> FileOutcome:
    place, note = f"{path}:1:1", "no scenario file of that name is beside it"
    found = LockedValue("lock", str(path), "unused", None, None, None, place, note)
    outcome = partial(FileOutcome, path, updated=update, locked=locked)
    if update:
        try:
            write_lock(path, {})
        except RunError as error:
            return outcome("bad", errors=(f"{path}: error: {error}",))
    return outcome(found.outcome(update=update, locked=locked), comparisons=(found,))


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in sorted(names))
