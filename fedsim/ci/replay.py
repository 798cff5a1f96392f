"""Replays scenario files: runs them, judges their limits, and compares them with their lock files."""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from fedsim.ci.lock import Lock, LockedValue, LockError, Mode, compare_and_update, lock_path, read_lock, write_lock
from fedsim.common.errors import FedsimError, RunError, ScenarioError, where
from fedsim.measure.limits import Judgement, judge
from fedsim.scenario import Scenario, open_scenario
from fedsim.scenario.permissions import NOTHING, Permissions
from fedsim.trials.executors.local import LocalProcesses, WorkerLostError

_Status = Literal["pass", "warn", "fail", "bad", "crash", "lock", "skip"]
"""``warn``: missed limits of severity warn alone; ``fail``: missed limits, or drift; ``bad``: the scenario is wrong;
``lock``: missing or unused, with ``--locked``; ``skip``: the scenario needs data that this machine does not have."""
STATUS_CODES: Mapping[_Status, int] = {"pass": 0, "warn": 0, "fail": 1, "bad": 2, "crash": 3, "lock": 4, "skip": 0}
_GRAVEST_FIRST: tuple[_Status, ...] = ("crash", "bad", "fail", "lock", "warn", "pass", "skip")


@dataclass(frozen=True)
class Replicate:
    """One replicate of one file."""

    file: str
    replicate: int
    tables: tuple[str, ...]  # those to be hashed
    permissions: Permissions = NOTHING
    keep: Path | None = None  # where to write the run directory with its report, if it is kept
    values: tuple[tuple[str, Any], ...] = ()  # in place of those in the file, by path


@dataclass(frozen=True)
class RunFigures:
    """The metrics of one run, the hashes of its tables, and the seconds that it took."""

    metrics: Mapping[str, float]
    fingerprints: Mapping[str, str]
    wall_s: float


@dataclass(frozen=True)
class FileOutcome:
    """What a replay found out about one scenario file."""

    file: Path
    status: _Status
    judgements: Sequence[Judgement] = ()
    comparisons: Sequence[LockedValue] = ()
    errors: Sequence[str] = ()  # why it was not judged, or what it lacks, with places if known
    warnings: Sequence[str] = ()  # what else a reviewer should see
    wall_s: float = 0.0  # of its runs, together
    mode: Mode = "check"
    summary: str = ""  # in place of how many limits and locked values were kept

    @classmethod
    def of_mistakes(cls, file: Path, error: ScenarioError) -> Self:
        """Return the outcome of a file whose scenario is wrong."""
        return cls(file, "bad", errors=tuple(map(str, error.mistakes)))

    @property
    def words(self) -> str:
        """Why it was not judged, or how many limits and locked values were kept; and its time."""
        if self.summary:
            return f"{self.summary}, {self.wall_s:.1f} s"
        if self.errors and not (self.judgements or self.comparisons):
            return self.errors[0].removeprefix(f"{self.file}: error: ").removeprefix(f"{self.file}:")
        kept = sum(judgement.status == "pass" for judgement in self.judgements)
        asked = [each for each in self.comparisons if each.status != "unused"]
        same = sum(each.status == "keep" for each in asked)
        parts = [f"{kept} of {len(self.judgements)} limits kept"] if self.judgements else []
        if asked and self.mode != "update":
            parts.append(f"{same} of {len(asked)} locked values kept")
        return ", ".join([*(parts or ["nothing expected"]), f"{self.wall_s:.1f} s"])

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``fedsim replay --json`` prints it."""
        return {
            "file": str(self.file),
            "status": self.status,
            "exit_code": STATUS_CODES[self.status],
            "conditions": [judgement.as_dict() for judgement in self.judgements],
            "drift": [
                {**vars(each), "action": each.action if self.mode == "update" else None} for each in self.comparisons
            ],
            "errors": list(self.errors),
            "warnings": list(self.warnings),
            "wall_s": round(self.wall_s, 3),
        }


def in_ci() -> bool:
    """Say whether this machine is that of a CI service."""
    return os.environ.get("CI", "").strip().lower() in {"1", "true", "yes", "on"}


def collect(paths: Sequence[Path], permissions: Permissions = NOTHING) -> tuple[list[Path], list[Path]]:
    """Return the scenario files that paths name, and lock files in folders that belong to none.

    Folders are searched for ``*.fedsim.yaml``; hidden folders are left out, and links to folders are not followed. A
    `RunError` says which path is not there, which folder holds no scenario, or which link leads outside and may not.
    """
    files: dict[Path, None] = {}
    orphans: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise RunError(f"{path} does not exist; give scenario files, or folders that hold *.fedsim.yaml")
            files[path] = None
            continue
        inside = list[Path]()
        for parent, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside += (Path(parent) / name for name in sorted(names))
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


def replay_files(
    files: Sequence[Path],
    orphans: Sequence[Path],
    mode: Mode,
    *,
    workers: int,
    permissions: Permissions = NOTHING,
    keep: Path | None = None,
) -> Generator[FileOutcome]:
    """Run scenario files, and judge lock files that belong to none, as `collect` returns them, in their order.

    `keep` is a folder for the run directories of the first replicates.
    """
    loaded: dict[Path, Scenario | FileOutcome] = {}
    for file in files:
        try:
            loaded[file] = open_scenario(file, permissions)
        except ScenarioError as error:
            loaded[file] = FileOutcome.of_mistakes(file, error)
    opened = {file: scenario for file, scenario in loaded.items() if isinstance(scenario, Scenario)}
    replicates = [one for file, scenario in opened.items() for one in replicates_of(file, scenario, keep)]
    measured: dict[str, dict[int, RunFigures | FileOutcome]] = {str(file): {} for file in files}
    with closing(measure_all(replicates, workers)) as answers:
        for file, scenario in loaded.items():
            if isinstance(scenario, FileOutcome):
                yield replace(scenario, mode=mode)
                continue
            by_replicate = measured[str(file)]
            while len(by_replicate) < scenario.replicates:
                one, answer = next(answers)
                measured[one.file][one.replicate] = answer
            yield conclude(file, scenario, [by_replicate[number] for number in sorted(by_replicate)], mode)
    for orphan in orphans:
        yield _orphaned(orphan, mode)


def run_replicate(one: Replicate) -> RunFigures | FileOutcome:
    """Run one replicate; return an outcome instead if anything goes wrong."""
    from fedsim.learning.failures import AbsentDataError
    from fedsim.log import fingerprint
    from fedsim.run.files import PAGE, Provenance
    from fedsim.run.load import load
    from fedsim.run.run import write_page
    from fedsim.run.simulate import simulate

    began = time.monotonic()
    try:
        scenario = open_scenario(Path(one.file), one.permissions).with_values(dict(one.values))
        result = simulate(scenario, replicate=one.replicate)
        if one.keep is not None:
            kept = result.save(one.keep, Provenance(one.file, permissions=one.permissions))
            write_page(load(kept), kept / PAGE, plugins=one.permissions.plugins)
        if result.failure:
            return _crashed(one, result.failure)
        prints = {name: fingerprint(table) for name, table in result.tables.items() if name in one.tables}
    except ScenarioError as error:
        return FileOutcome.of_mistakes(Path(one.file), error)
    except FedsimError as error:
        absent = isinstance(error, AbsentDataError) or isinstance(error.__cause__, AbsentDataError)
        return replace(_crashed(one, str(error)), status="skip" if absent else "crash")
    except BaseException as error:  # noqa: BLE001 - a plug-in can raise anything, and the other files must go on
        return _crashed(one, where(error))
    return RunFigures(result.metrics, prints, time.monotonic() - began)


def conclude(
    file: Path, scenario: Scenario, answers: Sequence[RunFigures | FileOutcome], mode: Mode, lock: Lock | None = None
) -> FileOutcome:
    """Judge the runs of one file, and write its lock file if that is asked for; `lock` is what it held, if known."""
    failures = [answer for answer in answers if isinstance(answer, FileOutcome)]
    runs = [answer for answer in answers if isinstance(answer, RunFigures)]
    outcome = partial(FileOutcome, file, wall_s=sum(run.wall_s for run in runs), mode=mode)
    if failures:
        lines = dict.fromkeys(line for failure in failures for line in failure.errors)
        return outcome(failures[0].status, errors=tuple(lines))
    judgements, path = judge(scenario, [run.metrics for run in runs]), lock_path(file)
    try:
        lock = read_lock(path, scenario.permissions) if lock is None else lock
        comparisons = compare_and_update(scenario, path, lock, runs[0].metrics, runs[0].fingerprints, mode)
    except LockError as error:
        return outcome("lock", judgements, errors=(str(error),))
    except RunError as error:
        return outcome("bad", judgements, errors=(f"{path}: error: {error}",))
    reached: set[_Status] = {each.status for each in judgements if each.status != "unjudged"}
    return outcome(gravest(reached | {each.outcome(mode) for each in comparisons}), judgements, comparisons)


def gravest(statuses: set[_Status]) -> _Status:
    """Return the status that decides: crash, bad, fail, lock, warn, pass, skip."""
    return next((status for status in _GRAVEST_FIRST if status in statuses), "pass")


def measure_all(replicates: Sequence[Replicate], workers: int) -> Generator[tuple[Replicate, RunFigures | FileOutcome]]:
    """Run replicates in processes, and give what comes of each; one whose process dies is tried once more."""
    if not replicates:
        return
    with LocalProcesses(min(workers, len(replicates))) as pool:
        running: dict[Future[RunFigures | FileOutcome], tuple[Replicate, bool]] = {
            pool.submit(run_replicate, one): (one, False) for one in replicates
        }
        while running:
            # With a timeout: an interrupt that reaches another thread does not wake this one.
            for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                one, again = running.pop(future)
                try:
                    yield one, future.result()
                except WorkerLostError as error:
                    if again:
                        yield one, _crashed(one, f"{error}, twice")
                    else:
                        running[pool.submit(run_replicate, one)] = one, True


def replicates_of(file: Path, scenario: Scenario, keep: Path | None = None) -> list[Replicate]:
    """Return the replicates of a file; tables are compared in the first of them alone, and it alone is kept.

    Its run directory is called, within `keep`, as the file is, with its folders and without its suffix.
    """
    tables = tuple(scenario.drift.fingerprint) if scenario.drift else ()
    folders = [part for part in file.parts[:-1] if part not in {file.anchor, ".."}]
    place = None if keep is None else keep.joinpath(*folders, file.name.removesuffix(".yaml").removesuffix(".fedsim"))
    first = Replicate(str(file), 0, tables, scenario.permissions, place)
    return [first, *(Replicate(str(file), each, (), scenario.permissions) for each in range(1, scenario.replicates))]


def _crashed(one: Replicate, why: str) -> FileOutcome:
    return FileOutcome(Path(one.file), "crash", errors=(f"{one.file}: error: {why}",))


def _orphaned(path: Path, mode: Mode) -> FileOutcome:
    note = "no scenario file of that name is beside it"
    unused = LockedValue("lock", str(path), "unused", place=f"{path}:1:1", note=note)
    outcome = partial(FileOutcome, path, mode=mode)
    if mode == "update":
        try:
            write_lock(path, {})
        except RunError as error:
            return outcome("bad", errors=(f"{path}: error: {error}",))
    return outcome(unused.outcome(mode), comparisons=(unused,))
