"""The command ``fedsim decide``: which setting to choose, each tuned fairly, and what it costs."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from fedsim.cli import options
from fedsim.cli.sweep import show_answer, with_settings
from fedsim.common.messages import complain, plain, say, say_json


def decide_command(
    file: options.ScenarioPath,
    override: options.Overrides = None,
    seed: options.Seed = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder to write; by default decisions/NAME.")] = None,
    executor: options.Executor = "process",
    workers: options.Workers = None,
    retries: options.Retries = 2,
    timeout: options.Timeout = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose among settings (`choose`) by `decide`: tune each, drop what is worse; a second call does the rest."""
    from fedsim.common.progress import on_stderr
    from fedsim.pages.page import PAGE, write_answer
    from fedsim.pages.trials import trials_answer
    from fedsim.run.check import exit_code
    from fedsim.run.files import Provenance
    from fedsim.trials.decide import decide, default_decision_directory
    from fedsim.trials.executors import backend_of
    from fedsim.trials.trials import Trials

    backend = backend_of(executor, workers)
    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    directory = out if out is not None else default_decision_directory(scenario)
    provenance = Provenance(str(file), override or [], seed, permissions=scenario.permissions)
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
            )
    except KeyboardInterrupt:
        complain("interrupted: the same command does the rest")
        raise
    answer = trials_answer(trials := Trials.read(done.directory))
    page = write_answer(answer, directory / PAGE)
    if as_json:
        say_json({"directory": str(directory), "report": str(page), **with_settings(answer, trials)})
    else:
        if not quiet:
            show_answer(answer)
            complain(f"Report: {page}")
        else:
            complain(plain(answer.headline))
        say(str(directory))
    if code := exit_code(answer.checks):
        raise Exit(code)
