"""The outcomes of a replay as files for CI services: JUnit XML, and a summary in Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from fedsim.ci.findings import Finding, findings
from fedsim.ci.replay import FileOutcome
from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes
from fedsim.common.markdown import code, escape, table
from fedsim.common.printable import printable

_LINE = re.compile(r":(\d+):\d+\Z")
_MOST = 50
"""Findings shown at most: GitHub shows 1 MiB."""


def write_junit(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """Write a JUnit file: a suite for each scenario file, a case for each condition, locked figure and table.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    root = ElementTree.Element("testsuites", name="fedsim replay")
    root.extend(map(_suite, outcomes))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    write_bytes(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _suite(outcome: FileOutcome) -> ElementTree.Element:
    found = findings(outcome)
    # A file that expects nothing still ran, or did not.
    cases = [_case(each, outcome) for each in found] or [_case(Finding("runs", "pass", str(outcome.file), ""), outcome)]
    suite = ElementTree.Element("testsuite", name=printable(str(outcome.file)), time=f"{outcome.wall_s:.3f}")
    suite.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(finding: Finding, outcome: FileOutcome) -> ElementTree.Element:
    line = _LINE.search(finding.place)
    name, file = printable(finding.name or "runs"), printable(str(outcome.file))
    case = ElementTree.Element("testcase", name=name, classname=file)
    case.set("file", printable(finding.place[: line.start()] if line else finding.place))
    if line:
        case.set("line", line[1])
    case.set("time", "0")
    message = printable(finding.text)
    if finding.level == "error":
        tag = "error" if outcome.status in {"bad", "crash"} else "failure"
        ElementTree.SubElement(case, tag, message=message).text = printable(finding.line)
    elif finding.level == "note":
        ElementTree.SubElement(case, "skipped", message=message)
    elif message:
        ElementTree.SubElement(case, "system-out").text = printable(finding.line)
    return case


def append_summary(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """Append a summary to a file: CI services give all steps of a job the same one.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    try:
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
    found = [finding for outcome in outcomes for finding in findings(outcome) if finding.level in {"error", "warning"}]
    lines = [_markdown(finding) for finding in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"- and {len(found) - _MOST:,} more")
    parts = [
        f"### fedsim replay: {good} of {len(ran)} scenario{'' if len(ran) == 1 else 's'} pass{skipped}",
        table(["", "scenario", "time"], rows),
        "\n".join(lines),
    ]
    return "\n\n".join(part for part in parts if part) + "\n\n"


def _markdown(finding: Finding) -> str:
    said = ": ".join(escape(part) for part in (finding.name, finding.text) if part)
    return f"- **{finding.level}** {code(finding.place)} {said}"
