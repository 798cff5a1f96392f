"""What a replay found, one by one: the source of printed lines, JUnit files and GitHub's annotations."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fedsim.ci.drift import LockedValue, Mode
from fedsim.ci.replay import FileOutcome
from fedsim.common.printable import printable
from fedsim.limits.verdict import Judgement

Level = Literal["pass", "note", "warning", "error"]

_PLACE = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?(?::(?P<col>\d+))?", re.DOTALL)
_PLACED = re.compile(r"(?P<place>.+?:\d+:\d+): error: (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """What was found about one condition, locked figure, locked table or run."""

    name: str
    level: Level
    place: str  # ``FILE:LINE:COLUMN``, or as much of it as is known
    text: str  # observed, limit and margin; old and new; what went wrong

    @property
    def line(self) -> str:
        """The finding as compilers show theirs."""
        return ": ".join(printable(part) for part in (self.place, self.level, self.name, self.text) if part)


def findings(outcome: FileOutcome) -> list[Finding]:
    """Return everything that was found about a file, in the order of the file."""
    file = str(outcome.file)
    found = [of_judgement(judgement, file) for judgement in outcome.judgements]
    found += [of_comparison(each, outcome.mode) for each in outcome.comparisons]
    return [_with_file(finding, file) for finding in (*found, *_of_errors(outcome))]


def of_judgement(judgement: Judgement, file: str) -> Finding:
    """Return the finding about a condition."""
    levels: dict[str, Level] = {"pass": "pass", "warn": "warning", "fail": "error", "unjudged": "note"}
    name = judgement.check if judgement.over == "every" else f"{judgement.check} ({judgement.over})"
    why = f" ({judgement.why})" if judgement.why else ""
    return Finding(name, levels[judgement.status], judgement.place or file, judgement.figures + why)


def of_comparison(comparison: LockedValue, mode: Mode) -> Finding:
    """Return the finding about a locked figure or table."""
    outcome, update = comparison.outcome(mode), mode == "update"
    quiet: Level = "pass" if comparison.status == "keep" or update else "note"
    if update and outcome == "pass":
        text, remedy = comparison.action, ""
    else:
        text, remedy = {
            "keep": ("kept", ""),
            "drift": (f"the {comparison.kind} has drifted", ""),
            "missing": ("not locked yet", "`fedsim replay --update` writes it"),
            "unused": ("locked, but not asked for", "`fedsim replay --update` removes it"),
            "error": ("the run has none", ""),
        }[comparison.status]
    said = ": ".join(part for part in (text, comparison.values) if part)
    said = "; ".join(part for part in (said, comparison.note, remedy) if part)
    name = comparison.name if comparison.kind != "fingerprint" else f"fingerprint of {comparison.name}"
    return Finding(name, quiet if outcome == "pass" else "error", comparison.place, said)


def _with_file(finding: Finding, file: str) -> Finding:
    """Add the scenario's name where the place is in another file: one that it extends, or its lock file."""
    if finding.level == "pass" or finding.place.startswith(file):
        return finding
    return replace(finding, text=f"{finding.text} (replaying {file})")


def _of_errors(outcome: FileOutcome) -> Iterator[Finding]:
    for line in outcome.errors:
        match = _PLACED.fullmatch(line)
        prefix = f"{outcome.file}: error: "
        place, text = (match["place"], match["text"]) if match else (str(outcome.file), line.removeprefix(prefix))
        yield Finding("", "note" if outcome.status == "skip" else "error", place, text)


def annotations(found: Iterable[Finding]) -> list[str]:
    """Return the commands that make GitHub Actions show errors and warnings next to the lines of a pull request."""
    return [_annotation(finding) for finding in found if finding.level in {"error", "warning"}]


def _annotation(finding: Finding) -> str:
    match = _PLACE.fullmatch(finding.place)
    parts = match.groupdict() if match is not None else {"file": finding.place}
    parts |= {"file": _from_workspace(parts["file"]), "title": finding.name or "fedsim"}
    properties = ",".join(f"{name}={_property(printable(value))}" for name, value in parts.items() if value)
    return f"::{finding.level} {properties}::{_message(printable(finding.text))}"


def _from_workspace(file: str) -> str:
    """Return the file as GitHub knows it: relative to the checkout."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    path = Path(file).absolute()
    if workspace and path.is_relative_to(workspace):
        return path.relative_to(workspace).as_posix()
    return file


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
