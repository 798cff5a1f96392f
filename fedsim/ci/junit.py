"""The outcomes of a replay as a JUnit XML file, which CI services show as tests."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from fedsim.ci.findings import Finding, findings
from fedsim.ci.replay import FileOutcome
from fedsim.common.files import write_bytes
from fedsim.common.printable import printable

_LINE = re.compile(r":(\d+):\d+\Z")


def write_junit(path: Path, outcomes: Sequence[FileOutcome]) -> None:
    """Write a JUnit file: a suite for each scenario file, a case for each condition, locked figure and table.

    Raises
    ------
    RunError
        If it cannot be written.
    """
    root = ElementTree.Element("testsuites", name="fedsim replay")
    for outcome in outcomes:
        root.append(_suite(outcome))
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
    case = ElementTree.Element(
        "testcase", name=printable(finding.name or "runs"), classname=printable(str(outcome.file))
    )
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
