"""The command ``fedsim replay``, and what it and ``fedsim run`` print about limits."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Exit, Option

from fedsim.cli.options import AllowOutside, AllowPlugins, AsJson, permitted
from fedsim.common.messages import annotate, complain, say, say_json

if TYPE_CHECKING:
    from fedsim.ci.lock import Mode
    from fedsim.ci.remarks import Remark
    from fedsim.ci.replay import FileOutcome
    from fedsim.measure.limits import Judgement


def replay_command(
    paths: Annotated[list[Path], Argument(metavar="PATH...", help="Scenario files, and folders to search.")],
    update: Annotated[bool, Option("--update", help="Bring the lock files up to date.")] = False,
    locked: Annotated[
        bool, Option("--locked", help="Fail on a missing or unused lock; CI=1 in the environment implies it.")
    ] = False,
    require_limits: Annotated[
        bool, Option("--require-limits", help="Fail a scenario of which nothing that can fail is expected.")
    ] = False,
    base: Annotated[
        str | None,
        Option(metavar="REF", help="Fail where limits or locks of this commit are gone or looser, e.g. origin/main."),
    ] = None,
    try_changes: Annotated[
        bool, Option("--mutate", help="Change each number a little, and fail for what no limit or lock notices.")
    ] = False,
    junit: Annotated[Path | None, Option(metavar="FILE", help="Also write the results as JUnit XML.")] = None,
    summary: Annotated[
        Path | None, Option(metavar="FILE", help="Append the results as Markdown, e.g. to $GITHUB_STEP_SUMMARY.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep the first run of each file in DIR, with its report; by default none is."),
    ] = None,
    workers: Annotated[int | None, Option(min=1, max=1024, help="Processes; by default as many as processors.")] = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, Option("-q", "--quiet", help="Print nothing of files that pass.")] = False,
) -> None:
    """Replay scenario files like tests: check their limits (expect) and that no figure has drifted from its lock."""
    from fedsim.ci.guard import base_of, guard
    from fedsim.ci.mutations import mutate
    from fedsim.ci.remarks import append_summary, write_junit
    from fedsim.ci.replay import STATUS_CODES, FileOutcome, collect, gravest, in_ci, replay_files
    from fedsim.common.errors import FedsimError
    from fedsim.trials.executors import default_workers

    if update and locked:
        raise BadParameter("leaves the lock files as they are; give one or the other", param_hint="--locked")
    if try_changes and (update or out is not None or base is not None):
        raise BadParameter("replays changed scenarios: without --update, --out and --base", param_hint="--mutate")
    permissions, processes = permitted(allow_plugins, allow_outside), workers or default_workers()
    mode: Mode = "update" if update else "locked" if locked or in_ci() else "check"
    done: list[FileOutcome] = []
    try:
        files, orphans = collect(paths, permissions)
        with nullcontext() if base is None else base_of(base, Path()) as earlier:
            asked = partial(guard, permissions=permissions, require=require_limits, base=earlier)
            replayed = replay_files(files, orphans, mode, workers=processes, permissions=permissions, keep=out)
            with closing(
                (mutate(file, permissions, processes) for file in files) if try_changes else replayed
            ) as outcomes:
                gone = () if earlier is None else earlier.gone(paths, files, permissions)
                for outcome in chain(map(asked, outcomes), gone):
                    done.append(outcome)
                    _show(outcome, quiet=as_json or (quiet and outcome.status == "pass"))
    except FedsimError as error:
        done.append(FileOutcome(paths[0], "bad", errors=(f"error: {error}",)))
        raise
    finally:  # after an interrupt, too
        if junit is not None:
            write_junit(junit, done)
        if summary is not None:
            append_summary(summary, done)
    exit_code = STATUS_CODES[gravest({outcome.status for outcome in done})]
    if as_json:
        say_json({"exit_code": exit_code, "results": [outcome.as_dict() for outcome in done]})
    raise Exit(exit_code)


def show_verdict(judgements: "Sequence[Judgement]", file: Path, *, quiet: bool) -> None:
    """Print which limits of one run were kept; if `quiet`, those that were not."""
    from fedsim.ci.remarks import of_judgement

    _show_remarks([of_judgement(judgement, str(file)) for judgement in judgements], passed=not quiet)


def _show(outcome: "FileOutcome", *, quiet: bool) -> None:
    from fedsim.ci.remarks import of_comparison, remarks

    if not quiet:
        say(f"{outcome.status.upper():<5}  {outcome.file}  {outcome.words}")
        for each in outcome.comparisons if outcome.mode == "update" else ():
            name = of_comparison(each, outcome.mode).name
            note = f"; {each.note}" if each.note else ""
            say(f"       {each.action:<6}  {name}  {each.values}{note}".rstrip())
        sys.stdout.flush()
    _show_remarks(remarks(outcome), passed=False)
    sys.stderr.flush()


def _show_remarks(remarks: "Sequence[Remark]", *, passed: bool) -> None:
    """Print a line for each remark, and for each error and warning what GitHub Actions reads, if it does."""
    from fedsim.ci.remarks import annotations

    for remark in remarks:
        if passed or remark.level != "pass":
            complain(remark.line)
    if os.environ.get("GITHUB_ACTIONS", "").lower() == "true":
        annotate(annotations(remarks))
