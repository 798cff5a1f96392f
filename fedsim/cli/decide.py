"""The command ``fedsim decide``: which setting to choose, each tuned fairly, and what it costs."""

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Exit, Option

from fedsim.cli import options
from fedsim.cli.sweep import show_answer, with_settings
from fedsim.common.messages import complain, plain, say, say_json

if TYPE_CHECKING:
    from fedsim.pages.answer import Answer
    from fedsim.trials.trials import Trials


def decide_command(
    file: options.ScenarioPath,
    override: options.Overrides = None,
    seed: options.Seed = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder to write; by default decisions/NAME.")] = None,
    limit: Annotated[
        str | None, Option("--time", metavar="DURATION", help="Answer after so long, such as 15m, by what is known.")
    ] = None,
    executor: options.Executor = "process",
    workers: options.Workers = None,
    retries: options.Retries = 2,
    timeout: options.Timeout = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose among settings (`choose`) by `decide`, in stages that each answer; a second call does the rest."""
    from fedsim.common.progress import on_stderr
    from fedsim.run.check import exit_code
    from fedsim.run.files import Provenance
    from fedsim.trials.decide import decide, default_decision_directory
    from fedsim.trials.executors import backend_of
    from fedsim.trials.trials import Trials, answering_in

    began, limit_s = time.monotonic(), options.duration_option(limit, "--time")
    if limit_s is not None and limit_s <= 0:
        raise BadParameter("must be longer than nothing", param_hint="--time")
    backend = backend_of(executor, workers)
    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    directory = out if out is not None else default_decision_directory(scenario)
    provenance = Provenance(str(file), override or [], seed, permissions=scenario.permissions)
    shown = list[str]()

    def show(trials: Trials) -> "Answer":
        answer, _ = _kept(trials, directory)
        if not (as_json or quiet or trials.stage in shown):
            shown.append(trials.stage)
            complain(_heading(trials, time.monotonic() - began))
            show_answer(answer, stages=True)
        return answer

    try:
        with on_stderr(quiet=quiet) as progress:
            done = decide(
                scenario,
                directory,
                backend,
                retries=retries,
                timeout=options.timeout_option(timeout),
                provenance=provenance,
                report=progress,
                tell=complain,
                until=math.inf if limit_s is None else began + limit_s,
                answered=show,
            )
    except KeyboardInterrupt:
        if answering_in(directory) is not None:
            trials = Trials.read(directory)
            show(trials)
            complain(f"interrupted; {_stands(trials)}; the same command does the rest")
        raise
    trials = Trials.read(done.directory)
    answer, data = _kept(trials, directory)
    if as_json:
        say_json(data)
    else:
        show(trials)
        if not done.whole:
            complain(_stands(trials))
        complain(f"Report: {data['report']}" if not quiet else plain(answer.headline))
        say(str(directory))
    if code := exit_code(answer.checks):
        raise Exit(code)


def _kept(trials: "Trials", directory: Path) -> "tuple[Answer, dict[str, Any]]":
    """Write the page of an answer, and its figures as JSON, and return both."""
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json, finite
    from fedsim.pages.page import PAGE, write_answer
    from fedsim.pages.trials import trials_answer

    answer = trials_answer(trials)
    page = write_answer(answer, directory / PAGE)
    data = {"directory": str(directory), "report": str(page), **with_settings(answer, trials)}
    write_text(directory / "decision.json", as_json(finite(data)))
    return answer, data


def _heading(trials: "Trials", seconds: float) -> str:
    from fedsim.common.instants import readable_time
    from fedsim.common.messages import folded
    from fedsim.pages.trials import stage_in_words

    return folded(f"After {readable_time(max(seconds, 1.0))}. {plain(stage_in_words(trials))}")


def _stands(trials: "Trials") -> str:
    return f"the answer is that of the stage {trials.stage!r}" if trials.stage else "the answer is what was there"
