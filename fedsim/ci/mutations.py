"""Small changes of the numbers of a scenario, and which of them its limits and its lock would notice."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsim.ci.lock import lock_path, read_lock
from fedsim.ci.replay import FileOutcome, conclude, measure_all, replicates_of
from fedsim.common.errors import FedsimError, KeyPath
from fedsim.common.formatting import count
from fedsim.scenario import Scenario, open_scenario
from fedsim.scenario.permissions import Permissions
from fedsim.scenario.sweep import WITHOUT_EFFECT

_NOT_CHANGED = WITHOUT_EFFECT | {"seed", "engine", "metrics", "records", "start"}
"""Keys whose change is another draw, or changes nothing that is simulated."""
_LONGEST = 8  # of longer lists the first number is changed
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([^\d:-].*)", re.ASCII)


@dataclass(frozen=True)
class Mutation:
    """A number of a scenario, and what is tried in its place: about a tenth more."""

    path: KeyPath
    old: Any
    new: Any

    @property
    def key(self) -> str:
        """The path as after ``--set``."""
        return ".".join(map(str, self.path))


def mutations(scenario: Scenario) -> list[Mutation]:
    """Return a change of each number of a scenario that makes another scenario without mistakes."""
    changes = []
    for path, old in _numbers(scenario.as_written):
        mutation = Mutation(path, old, _more(old))
        try:
            scenario.with_values({mutation.key: mutation.new})
        except FedsimError:
            continue
        changes.append(mutation)
    return changes


def _numbers(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if path or key not in _NOT_CHANGED:
                yield from _numbers(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value if len(value) <= _LONGEST else value[:1]):
            yield from _numbers(each, (*path, index))
    elif _more(value) is not None:
        yield path, value


def _more(value: Any) -> Any:
    """Return about a tenth more of a number, an amount or a duration; None of anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value + max(1, round(value / 10))
    if isinstance(value, float):
        return float(f"{1.1 * value or 0.1:.6g}")
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else f"{1.1 * float(match[1]):.6g}{match[2]}"


def mutate(file: Path, permissions: Permissions, workers: int) -> FileOutcome:
    """Try every mutation of a scenario file; the outcome has an error for each that nothing would notice.

    Those that change no figure are counted apart. What does not pass as it is has the outcome of its replay.
    """
    scenario = open_scenario(file, permissions)
    lock = read_lock(lock_path(file), permissions)
    changes: list[Mutation | None] = [None, *mutations(scenario)]
    replicates = {
        replace(one, values=() if change is None else ((change.key, change.new),)): change
        for change in changes
        for one in replicates_of(file, scenario)
    }
    answers: dict[Mutation | None, dict[int, Any]] = {change: {} for change in changes}
    with closing(measure_all(list(replicates), workers)) as done:
        for one, answer in done:
            answers[replicates[one]][one.replicate] = answer
    outcomes = dict[Mutation | None, FileOutcome]()
    for change, runs in answers.items():
        changed = scenario if change is None else scenario.with_values({change.key: change.new})
        outcomes[change] = conclude(file, changed, [runs[number] for number in sorted(runs)], "check", lock)
    asis = outcomes.pop(None)
    if asis.status not in {"pass", "warn"}:
        return asis
    figures = {each: repr([getattr(runs[k], "metrics", k) for k in sorted(runs)]) for each, runs in answers.items()}
    idle = [each for each in outcomes if figures[each] == figures[None]]
    passing = [each for each, outcome in outcomes.items() if each and outcome.status in {"pass", "warn", "skip"}]
    unnoticed = [each for each in passing if each not in idle]
    places = [scenario.mistake(each.path, "").place for each in unnoticed]
    errors = [
        f"{place}: error: {each.key}: no limit or lock notices {each.new} for {each.old}"
        for place, each in zip(places, unnoticed, strict=True)
    ]
    tried = len(outcomes) - len(idle)
    summary = f"{tried - len(unnoticed)} of {count(tried, 'change')} noticed"
    summary += f", {len(idle)} more change no figure" if idle else ""
    wall_s = sum(each.wall_s for each in outcomes.values())
    return FileOutcome(file, "fail" if unnoticed else "pass", errors=errors, wall_s=wall_s, summary=summary)
