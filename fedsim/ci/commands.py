"""The bodies of commands that judge: what they print, and their exit codes."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedsim.ci.findings import annotations, findings, of_comparison, of_judgement
from fedsim.ci.junit import write_junit
from fedsim.ci.replay import EXIT_CODES, FileOutcome, collect, gravest, replay
from fedsim.ci.summary import append_summary
from fedsim.common.messages import annotate, complain, say, say_json
from fedsim.limits.verdict import Judgement, failed
from fedsim.scenario.permissions import Permissions
from fedsim.sweeps.executors import default_workers

_WORDS = {
    "pass": "PASS",
    "warn": "WARN",
    "fail": "FAIL",
    "bad": "BAD",
    "crash": "CRASH",
    "lock": "LOCK",
    "skip": "SKIP",
}


def replay_command(
    paths: Sequence[Path],
    *,
    update: bool,
    locked: bool,
    junit: Path | None,
    summary: Path | None,
    keep: Path | None,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    permissions: Permissions,
) -> int:
    """Replay scenario files, print a line for each (if `quiet`, for those that do not pass); return the exit code.

    Raises
    ------
    RunError
        If a path holds no scenario, or the JUnit file or the summary cannot be written.
    KeyboardInterrupt
        If interrupted; both then hold what was done.
    """
    locked = locked or (in_ci() and not update)
    files, orphans = collect(paths, permissions)
    done: list[FileOutcome] = []
    try:
        outcomes = replay(
            files,
            orphans,
            update=update,
            locked=locked,
            workers=workers or default_workers(),
            permissions=permissions,
            keep=keep,
        )
        with closing(outcomes):
            for outcome in outcomes:
                done.append(outcome)
                _show(outcome, quiet=as_json or (quiet and outcome.status == "pass"))
    finally:
        if junit is not None:
            write_junit(junit, done)
        if summary is not None:
            append_summary(summary, done)
    exit_code = EXIT_CODES[gravest({outcome.status for outcome in done})]
    if as_json:
        results = [_as_dict(outcome) for outcome in done]
        say_json({"exit_code": exit_code, "results": results})
    return exit_code


def show_verdict(judgements: Sequence[Judgement], file: str, *, quiet: bool = False) -> int:
    """Tell a person what became of the limits of one run (if `quiet`, of those not kept); return the exit code."""
    found = [of_judgement(judgement, file) for judgement in judgements]
    for finding in found:
        if not (quiet and finding.level == "pass"):
            complain(finding.line)
    if in_github():
        annotate(annotations(found))
    return EXIT_CODES["fail" if failed(judgements) else "pass"]


def in_ci() -> bool:
    """Say whether this is a CI service's machine."""
    return os.environ.get("CI", "").strip().lower() in {"1", "true", "yes", "on"}


def in_github() -> bool:
    """Say whether GitHub Actions reads what is printed."""
    return os.environ.get("GITHUB_ACTIONS", "").lower() == "true"


def _show(outcome: FileOutcome, *, quiet: bool) -> None:
    found = findings(outcome)
    if not quiet:
        say(f"{outcome.status.upper():<5}  {outcome.file}  {_summary(outcome)}")
        for each in outcome.comparisons if outcome.updated else ():
            name = of_comparison(each, update=True, locked=False).name
            note = f"; {each.note}" if each.note else ""
            say(f"       {each.action:<6}  {name}  {each.values}{note}".rstrip())
        sys.stdout.flush()
    for finding in found:
        if finding.level != "pass":
            complain(finding.line)
    if in_github():
        annotate(annotations(found))
    sys.stderr.flush()


def _summary(outcome: FileOutcome) -> str:
    if outcome.errors and not outcome.judgements:
        return outcome.errors[0].removeprefix(f"{outcome.file}: error: ").removeprefix(f"{outcome.file}:")
    kept = sum(judgement.status == "pass" for judgement in outcome.judgements)
    asked = [each for each in outcome.comparisons if each.status != "unused"]
    same = sum(each.status == "keep" for each in asked)
    parts = [f"{kept} of {len(outcome.judgements)} limits kept"] if outcome.judgements else []
    if asked and not outcome.updated:
        parts.append(f"{same} of {len(asked)} locked values kept")
    parts = parts or ["nothing expected"]
    return ", ".join([*parts, f"{outcome.wall_s:.1f} s"])


def _as_dict(outcome: FileOutcome) -> dict[str, Any]:
    return {
        "file": str(outcome.file),
        "status": outcome.status,
        "exit_code": EXIT_CODES[outcome.status],
        "conditions": [judgement.as_dict() for judgement in outcome.judgements],
        "drift": [{**vars(each), "action": each.action if outcome.updated else None} for each in outcome.comparisons],
        "errors": list(outcome.errors),
        "wall_s": round(outcome.wall_s, 3),
    }
