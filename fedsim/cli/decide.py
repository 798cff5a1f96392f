"""The command ``fedsim decide``: which setting to choose, each tuned fairly, and what it costs."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from fedsim.cli import options
from fedsim.cli.sweep import show_answer
from fedsim.common.messages import complain, plain, say, say_json

_NO_ANSWER, _CRASHED = 1, 3


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
    from fedsim.pages.decision_report import decision_document
    from fedsim.pages.finding import as_plain
    from fedsim.pages.page import PAGE, write_document
    from fedsim.run.files import Provenance
    from fedsim.trials.decide import decide, default_decision_directory
    from fedsim.trials.executors import backend_of

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
    document = decision_document(done.directory)
    page = write_document(document, directory / PAGE)
    if as_json:
        settings = document.tables[0]
        rows = [dict(zip(settings.header, row, strict=True)) for row in settings.rows] if settings else []
        said = {"directory": str(directory), "report": str(page), "answer": document.finding, "settings": rows}
        say_json({**said, "findings": [as_plain(each) for each in document.answer]})
    else:
        if not quiet:
            show_answer(document, document.tables)
            complain(f"Report: {page}")
        complain(plain(f"{document.finding}."))
        say(str(directory))
    if any(stage.crashed for stage in done.stages):
        raise Exit(_CRASHED)
    if document.first_picture is None:  # no setting is chosen
        raise Exit(_NO_ANSWER)
