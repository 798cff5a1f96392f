"""Annotations that GitHub Actions shows beside the lines of a pull request."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from fedsim.ci.findings import Finding

_PLACE = re.compile(r"(?P<file>.+?)(?::(?P<line>\d+))?(?::(?P<col>\d+))?", re.DOTALL)


def annotations(found: Iterable[Finding]) -> list[str]:
    """Return a workflow command for each error and warning."""
    return [_annotation(finding) for finding in found if finding.level in {"error", "warning"}]


def _annotation(finding: Finding) -> str:
    match = _PLACE.fullmatch(finding.place)
    parts = match.groupdict() if match is not None else {"file": finding.place}
    parts |= {"file": _from_workspace(parts["file"]), "title": finding.name or "fedsim"}
    properties = ",".join(f"{name}={_property(value)}" for name, value in parts.items() if value)
    return f"::{finding.level} {properties}::{_message(finding.text)}"


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
