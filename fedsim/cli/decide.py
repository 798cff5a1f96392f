"""The command ``fedsim decide``: which setting to choose, each tuned fairly, and what it costs."""

import math
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from fedsim.cli import options
from fedsim.cli.sweep import show_answer, with_settings
from fedsim.common.messages import complain, plain, say, say_json


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
    from fedsim.common.files import write_text
    from fedsim.common.instants import readable_time
    from fedsim.common.json_files import as_json as as_json_text
    from fedsim.common.json_files import finite
    from fedsim.common.messages import folded
    from fedsim.common.progress import on_stderr
    from fedsim.pages.page import PAGE, write_answer
    from fedsim.pages.trials import stage_in_words, trials_answer
    from fedsim.run.check import exit_code
    from fedsim.run.files import Provenance
    from fedsim.trials.decide import decide, default_decision_directory
    from fedsim.trials.executors import backend_of
    from fedsim.trials.trials import Trials, answering_in

    began, limit_s = time.monotonic(), options.timeout_option(limit, "--time")
    backend = backend_of(executor, workers)
    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    directory = out if out is not None else default_decision_directory(scenario)
    provenance = Provenance(str(file), override or [], seed, permissions=scenario.permissions)
    shown, last = list[str](), dict[str, Any]()

    def show(trials: Trials, *, last_of_all: bool = False) -> None:
        answer = trials_answer(trials)
        if not (as_json or quiet or trials.stage in shown):
            shown.append(trials.stage)
            seconds = max(time.monotonic() - began, 1.0)
            complain(folded(f"After {readable_time(seconds)}. {plain(stage_in_words(trials))}"))
            show_answer(answer, stages=True)
        page = write_answer(answer, directory / PAGE)
        data = {"directory": str(directory), "report": str(page), **with_settings(answer, trials)}
        write_text(directory / "decision.json", as_json_text(finite(data)))
        last.update(answer=answer, data=data)
        if last_of_all and not as_json:
            complain(f"The answer is that of the stage {trials.stage!r}.")

    try:
        with on_stderr(quiet=quiet) as progress:
            done = decide(
                scenario,
                directory,
                backend,
                retries=retries,
                timeout=options.timeout_option(timeout),
                provenance=provenance,
                progress=progress,
                tell=complain,
                until=math.inf if limit_s is None else began + limit_s,
                answered=show,
            )
    except KeyboardInterrupt:
        if answering_in(directory) is not None and (trials := Trials.read(directory)).metrics:
            show(trials, last_of_all=True)
        complain("interrupted: the same command does the rest")
        raise
    if not done.whole:
        show(Trials.read(directory), last_of_all=True)
    if as_json:
        say_json(last["data"])
    else:
        complain(plain(last["answer"].headline) if quiet else f"Report: {last['data']['report']}")
        say(str(directory))
    if code := exit_code(last["answer"].checks):
        raise Exit(code)
