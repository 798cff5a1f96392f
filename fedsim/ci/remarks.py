"""What a replay found, one by one: printed lines, GitHub's annotations, JUnit XML, and a summary in Markdown."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from fedsim.ci.lock import LockedValue, Mode
from fedsim.ci.replay import FileOutcome
from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes
from fedsim.common.markup import code, escape, table
from fedsim.common.printable import printable
from fedsim.common.regular_files import regular
from fedsim.measure.limits import Judgement

Level = Literal["pass", "note", "warning", "error"]

_PLACE = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?(?::(?P<col>\d+))?", re.DOTALL)
_LINE = re.compile(r":(\d+):\d+\Z")
_PLACED = re.compile(r"(?P<place>.+?:\d+:\d+): error: (?P<text>.*)", re.DOTALL)
_MOST = 50
"""Findings in a summary at most: GitHub shows 1 MiB."""


@dataclass(frozen=True)
class Remark:
    """What was found about one condition, locked figure, locked table or run."""

    name: str
    level: Level
    place: str  # ``FILE:LINE:COLUMN``, or as much of it as is known
    text: str  # observed, limit and margin; old and new; what went wrong

    @property
    def line(self) -> str:
        """The remark as compilers show theirs."""
        return ": ".join(printable(part) for part in (self.place, self.level, self.name, self.text) if part)


def remarks(outcome: FileOutcome) -> list[Remark]:
    """Return everything that was found about a file, in the order of the file."""
    file = str(outcome.file)
    listed = [of_judgement(judgement, file) for judgement in outcome.judgements]
    listed += [of_comparison(each, outcome.mode) for each in outcome.comparisons]
    for line in outcome.errors:
        match = _PLACED.fullmatch(line)
        place, text = match.groups() if match else (file, line.removeprefix(f"{file}: error: "))
        listed.append(Remark("", "note" if outcome.status == "skip" else "error", place, text))
    listed += [Remark("", "warning", file, text) for text in outcome.warnings]
    # The scenario's name is added where the place is in another file: one that it extends, or its lock file.
    return [
        each
        if each.level == "pass" or each.place.startswith(file)
        else replace(each, text=f"{each.text} (replaying {file})")
        for each in listed
    ]


def of_judgement(judgement: Judgement, file: str) -> Remark:
    """Return the remark about a condition."""
    levels: dict[str, Level] = {"pass": "pass", "warn": "warning", "fail": "error", "unjudged": "note"}
    name = judgement.check if judgement.over == "every" else f"{judgement.check} ({judgement.over})"
    why = f" ({judgement.why})" if judgement.why else ""
    return Remark(name, levels[judgement.status], judgement.place or file, judgement.figures + why)


def of_comparison(comparison: LockedValue, mode: Mode) -> Remark:
    """Return the remark about a locked figure or table."""
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
    message = ": ".join(part for part in (text, comparison.values) if part)
    changed = "the scenario itself has changed since it was locked" if comparison.changed else ""
    message = "; ".join(part for part in (message, changed, comparison.note, remedy) if part)
    name = comparison.name if comparison.kind != "fingerprint" else f"fingerprint of {comparison.name}"
    return Remark(name, quiet if outcome == "pass" else "error", comparison.place, message)


def annotations(listed: Iterable[Remark]) -> Iterator[str]:
    """Yield the commands that make GitHub Actions show errors and warnings next to the lines of a pull request."""
    for remark in listed:
        if remark.level not in {"error", "warning"}:
            continue
        match = _PLACE.fullmatch(remark.place)
        parts = match.groupdict() if match is not None else {"file": remark.place}
        parts |= {"file": _from_workspace(parts["file"]), "title": remark.name or "fedsim"}
        safe = {name: _message(printable(each)).replace(":", "%3A").replace(",", "%2C") for name, each in parts.items()}
        properties = ",".join(f"{name}={value}" for name, value in safe.items() if value)
        yield f"::{remark.level} {properties}::{_message(printable(remark.text))}"


def _from_workspace(file: str) -> str:
    """Return the file as GitHub knows it: relative to the checkout."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    path = Path(file).absolute()
    if workspace and path.is_relative_to(workspace):
        return path.relative_to(workspace).as_posix()
    return file


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_junit(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """Write a JUnit file: a suite for each scenario file, a case for each condition, locked figure and table."""
    root = ElementTree.Element("testsuites", name="fedsim replay")
    root.extend(map(_suite, outcomes))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    write_bytes(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _suite(outcome: FileOutcome) -> ElementTree.Element:
    listed = remarks(outcome)
    # A file that expects nothing still ran, or did not.
    cases = [_case(each, outcome) for each in listed or [Remark("runs", "pass", str(outcome.file), "")]]
    cases[0].set("time", f"{outcome.wall_s:.3f}")  # the runs, which all cases share
    suite = ElementTree.Element("testsuite", name=printable(str(outcome.file)), time=f"{outcome.wall_s:.3f}")
    suite.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(remark: Remark, outcome: FileOutcome) -> ElementTree.Element:
    line = _LINE.search(remark.place)
    name, file = printable(remark.name or "runs"), printable(str(outcome.file))
    case = ElementTree.Element("testcase", name=name, classname=file)
    case.set("file", printable(remark.place[: line.start()] if line else remark.place))
    if line:
        case.set("line", line[1])
    case.set("time", "0")
    message = printable(remark.text)
    if remark.level == "error":
        tag = "error" if outcome.status in {"bad", "crash"} else "failure"
        ElementTree.SubElement(case, tag, message=message).text = printable(remark.line)
    elif remark.level == "note":
        ElementTree.SubElement(case, "skipped", message=message)
    elif message:
        ElementTree.SubElement(case, "system-out").text = printable(remark.line)
    return case


def append_summary(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """Append a summary to a file: CI services give all steps of a job the same one."""
    try:
        if path.exists():
            regular(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(summary(outcomes))
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from None


def summary(outcomes: Sequence[FileOutcome]) -> str:
    """Return how many scenarios pass, a table of all, and what is to be said about those that do not."""
    ran = [outcome for outcome in outcomes if outcome.status != "skip"]
    good = sum(outcome.status in {"pass", "warn"} for outcome in ran)
    skipped = f", {len(outcomes) - len(ran)} skipped" if len(ran) < len(outcomes) else ""
    rows = [
        [escape(outcome.status.upper()), code(str(outcome.file)), f"{outcome.wall_s:.1f} s"] for outcome in outcomes
    ]
    notable = [remark for outcome in outcomes for remark in remarks(outcome) if remark.level in {"error", "warning"}]
    lines = [
        f"- **{each.level}** {code(each.place)} {': '.join(escape(part) for part in (each.name, each.text) if part)}"
        for each in notable[:_MOST]
    ]
    if len(notable) > _MOST:
        lines.append(f"- and {len(notable) - _MOST:,} more")
    parts = [
        f"### fedsim replay: {good} of {len(ran)} scenario{'' if len(ran) == 1 else 's'} pass{skipped}",
        table(["", "scenario", "time"], rows),
        "\n".join(lines),
    ]
    return "\n\n".join(part for part in parts if part) + "\n\n"
