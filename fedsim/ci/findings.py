"""What a replay found, one thing each: what lines for people, JUnit files and annotations are made from."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fedsim.ci.drift import LockedValue
from fedsim.ci.replay import FileOutcome
from fedsim.limits.verdict import Judgement

Level = Literal["pass", "note", "warning", "error"]

_PLACED = re.compile(r"(?P<place>.+?:\d+:\d+): error: (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """One condition, locked figure or error, and what is to be said about it.

    Attributes
    ----------
    name
        The condition, the figure or the table.
    level
        ``pass``, ``note``, ``warning`` or ``error``.
    place
        ``FILE:LINE:COLUMN``, or as much of it as is known.
    text
        Observed, limit and margin; old and new; what went wrong.
    """

    name: str
    level: Level
    place: str
    text: str

    @property
    def line(self) -> str:
        """The finding as compilers show theirs."""
        return ": ".join(part for part in (self.place, self.level, self.name, self.text) if part)


def findings(outcome: FileOutcome) -> list[Finding]:
    """Return everything that was found about a file, in the order of the file."""
    file = str(outcome.file)
    found = [of_judgement(judgement, file) for judgement in outcome.judgements]
    found += [of_comparison(each, update=outcome.updated, locked=outcome.locked) for each in outcome.comparisons]
    return [_with_file(finding, file) for finding in (*found, *_of_errors(outcome))]


def of_judgement(judgement: Judgement, file: str) -> Finding:
    """Say what became of a condition."""
    levels: dict[str, Level] = {"pass": "pass", "warn": "warning", "fail": "error", "unjudged": "note"}
    name = judgement.check if judgement.over == "every" else f"{judgement.check} ({judgement.over})"
    why = f" ({judgement.why})" if judgement.why else ""
    return Finding(name, levels[judgement.status], judgement.place or file, judgement.figures + why)


def of_comparison(comparison: LockedValue, *, update: bool, locked: bool) -> Finding:
    """Say what became of a locked figure or table."""
    outcome = comparison.outcome(update=update, locked=locked)
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
    """Name the scenario where the place is in another file, one that it extends, or its lock file."""
    if finding.level == "pass" or finding.place.startswith(file):
        return finding
    return replace(finding, text=f"{finding.text} (replaying {file})")


def _of_errors(outcome: FileOutcome) -> Iterator[Finding]:
    for line in outcome.errors:
        match = _PLACED.fullmatch(line)
        prefix = f"{outcome.file}: error: "
        place, text = (match["place"], match["text"]) if match else (str(outcome.file), line.removeprefix(prefix))
        yield Finding("", "error", place, text)
