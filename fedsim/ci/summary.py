"""The outcomes of a replay as Markdown, which CI services show above their logs."""

from collections.abc import Sequence
from pathlib import Path

from fedsim.ci.findings import Finding, findings
from fedsim.ci.replay import FileOutcome
from fedsim.common.errors import RunError
from fedsim.common.markdown import code, escape, table

MOST = 50
"""Findings shown at most: GitHub shows 1 MiB."""


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
    lines = [_line(finding) for finding in found[:MOST]]
    if len(found) > MOST:
        lines.append(f"- and {len(found) - MOST:,} more")
    parts = [
        f"### fedsim replay: {good} of {len(ran)} scenario{'' if len(ran) == 1 else 's'} pass{skipped}",
        table(["", "scenario", "time"], rows),
        "\n".join(lines),
    ]
    return "\n\n".join(part for part in parts if part) + "\n\n"


def _line(finding: Finding) -> str:
    said = ": ".join(escape(part) for part in (finding.name, finding.text) if part)
    return f"- **{finding.level}** {code(finding.place)} {said}"
