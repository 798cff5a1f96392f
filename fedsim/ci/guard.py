"""Sees that a change does not talk its way out of limits: what a scenario must expect, and what it expected before."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fedsim.ci.lock import LockError, lock_path, read_lock
from fedsim.ci.replay import FileOutcome, collect, gravest
from fedsim.common.errors import KeyPath, RunError, ScenarioError
from fedsim.measure.grammar import ConditionError, Limit, MetricCondition, parse_condition
from fedsim.run.files import changes
from fedsim.scenario import Scenario, open_scenario
from fedsim.scenario.permissions import Permissions
from fedsim.scenario.sweep import WITHOUT_EFFECT, Expectation

_MOST_CHANGES = 3  # of a scenario that are named


@dataclass(frozen=True)
class Base:
    """A repository as it was: its top folder, and a copy of what was in it at a reference of git."""

    reference: str
    top: Path
    copy: Path

    def before(self, path: Path) -> Path:
        """Return where a path of the repository was: a link that was a file is compared with that file."""
        path = Path(os.path.abspath(path))  # noqa: PTH100 - without the links that are followed by `resolve`
        for parent in (path, *path.parents):
            if parent.resolve() == self.top:
                return self.copy / path.relative_to(parent)
        raise RunError(f"{path} is not in the repository {self.top}, of which --base tells")

    def gone(self, paths: Sequence[Path], files: Sequence[Path], permissions: Permissions) -> Iterator[FileOutcome]:
        """Yield an outcome for each scenario file that was under the paths, and is not among the `files` of now."""
        now = {file.resolve() for file in files}
        for path in paths:
            before = self.before(path)
            try:
                earlier = collect([before], permissions)[0]
            except RunError:
                continue  # there was none
            for file in earlier:
                current = path if file == before else path / file.relative_to(before)
                if current.resolve() not in now:
                    error = f"{current}: error: it was there at {self.reference}, and is gone"
                    yield FileOutcome(current, "fail", errors=(error,))


@contextmanager
def base_of(reference: str, folder: Path) -> Iterator[Base]:
    """Give a copy of the repository of a folder as it was at a reference; it is removed at the end.

    A `RunError` says that there is no repository, or no such reference.
    """
    if reference.startswith("-"):
        raise RunError(f"--base {reference} is no reference of git, such as origin/main")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip()).resolve()
    with TemporaryDirectory(prefix="fedsim-") as place:
        # Not `git archive`, which leaves out what .gitattributes names as `export-ignore`.
        copy, index = Path(place, "copy"), {"GIT_INDEX_FILE": str(Path(place, "index"))}
        _git(top, "read-tree", reference, **index)
        _git(top, "checkout-index", "--all", f"--prefix={copy}/", **index)
        yield Base(reference, top, copy.resolve())


def _git(folder: Path, *arguments: str, **environment: str) -> bytes:
    command, variables = ["git", "-C", str(folder), *arguments], os.environ | environment
    try:
        return subprocess.run(command, capture_output=True, check=True, env=variables).stdout
    except FileNotFoundError:
        raise RunError("--base needs git, which is not installed here") from None
    except subprocess.CalledProcessError as failed:
        last = failed.stderr.decode(errors="replace").strip().splitlines()[-1:]
        hint = "a shallow clone has no other commits: fetch them, on GitHub with `fetch-depth: 0`"
        raise RunError(f"--base: git {arguments[0]} failed: {''.join(last)}; {hint}") from None


def guard(outcome: FileOutcome, permissions: Permissions, *, require: bool, base: Base | None) -> FileOutcome:
    """Return the outcome of a file with what it lacks: a limit that can fail, and what was expected at the base."""
    if not (require or base) or outcome.status in {"bad", "crash"} or outcome.file.name.endswith(".lock.json"):
        return outcome
    scenario, errors, warnings = open_scenario(outcome.file, permissions), list[str](), list[str]()
    if require and scenario.drift is None and not any(each.severity == "error" for each in scenario.expect):
        lacking = "nothing that is expected of it can fail: give it `expect` or `drift`"
        errors.append(f"{outcome.file}:1:1: error: {lacking}")
    if base is not None and (before := base.before(outcome.file)).is_file():
        try:
            earlier = open_scenario(before, permissions)
            less = _loosened(scenario, earlier, base.reference)
            errors += [f"{scenario.mistake(path, '').place}: error: {text}" for path, text in less]
            warnings += _relocked(outcome.file, before, permissions, base.reference)
        except (ScenarioError, LockError, ConditionError) as error:
            warnings.append(f"what it was at {base.reference} cannot be read: {error}")
        else:
            if others := list(_changed(scenario, earlier)):
                more = f", and {len(others) - _MOST_CHANGES} more" if len(others) > _MOST_CHANGES else ""
                difference = f"other than at {base.reference}: {'; '.join(others[:_MOST_CHANGES])}{more}"
                if outcome.status == "skip":
                    errors.append(f"{outcome.file}:1:1: error: nothing of it is judged here, and it is {difference}")
                else:
                    warnings.append(f"the limits judge a scenario {difference}")
    status = gravest({outcome.status, *(("fail",) if errors else ("warn",) if warnings else ())})
    return replace(outcome, status=status, errors=(*outcome.errors, *errors), warnings=warnings)


def _loosened(now: Scenario, then: Scenario, reference: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield what an earlier form of a scenario demanded, and this one does not, with the path of what is there now."""
    for old in [each for each in then.expect if each.severity == "error"]:
        metric = parse_condition(old.check).metric
        limits = {at: each for at, each in enumerate(now.expect) if parse_condition(each.check).metric == metric}
        if not any(_implies(new, old) for new in limits.values()):
            there = [f"{each.check!r} ({each.severity}, over: {each.over})" for each in limits.values()]
            text = ", and there is ".join([f"the limit {old.check!r} of {reference} no longer holds", *there])
            yield ("expect", *list(limits)[:1]), text
    if now.replicates < then.replicates:
        yield ("replicates",), f"replicates were {then.replicates} at {reference}, and are {now.replicates}"
    if then.drift is None:
        return
    figures = {} if now.drift is None else {each.name: now.drift.tolerance(each) for each in now.drift.figures}
    for figure in then.drift.figures:
        old_rel, old_abs = then.drift.tolerance(figure)
        rel, absolute = figures.get(figure.name, (0.0, 0.0))
        if figure.name not in figures:
            yield ("drift",), f"`drift` no longer has {figure.name}, as at {reference}"
        elif rel > old_rel or absolute > old_abs:
            yield ("drift",), f"`drift` allows {figure.name} more than at {reference}"
    for table in then.drift.fingerprint:
        if now.drift is None or table not in now.drift.fingerprint:
            yield ("drift",), f"`drift` no longer has the fingerprint of {table}, as at {reference}"


def _changed(now: Scenario, then: Scenario) -> Iterator[str]:
    """Yield what is simulated otherwise than it was: keys of the scenario, and files that it names."""
    without = {*WITHOUT_EFFECT, "engine"}
    both = (each.model_dump(mode="json", exclude=without) for each in (then, now))
    yield from (f"{path} was {json.dumps(old)}, and is {json.dumps(new)}" for path, old, new in changes(*both))
    files = now.files()
    yield from (f"the file {name} has changed" for name, old in then.files().items() if files.get(name, old) != old)


def _implies(new: Expectation, old: Expectation) -> bool:
    """Say whether a run that keeps a limit keeps another one of the same metric, too."""
    if new.severity != "error" or new.over not in {"every", old.over}:
        return False
    return _inside(parse_condition(new.check), parse_condition(old.check))


def _inside(new: MetricCondition, old: MetricCondition) -> bool:
    def kept(new: Limit | None, old: Limit | None, sign: int) -> bool:
        if old is None or new is None:
            return old is None
        return (sign * new.value, new.strict) >= (sign * old.value, old.strict)

    return kept(new.low, old.low, 1) and kept(new.high, old.high, -1)


def _relocked(file: Path, before: Path, permissions: Permissions, reference: str) -> Iterator[str]:
    """Yield the locked values that a change has replaced, or taken away for a platform."""
    now, then = (read_lock(lock_path(each), permissions) for each in (file, before))
    for platform, old in then.items():
        new = now.get(platform)
        if new is None:
            yield f"the lock for {platform} of {reference} is gone"
            continue
        for name, value in {**old.figures, **old.fingerprints}.items():
            if (current := {**new.figures, **new.fingerprints}.get(name)) != value:
                yield f"the locked value of {name} was {value} at {reference}, and is {current} ({platform})"
