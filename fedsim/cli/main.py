"""The command line: reads arguments, calls the library, prints; every command imports only what it needs."""

import atexit
import gc
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from fedsim._version import __version__
from fedsim.cli.chain import chain
from fedsim.cli.export import app as export_app
from fedsim.cli.options import (
    AllowOutside,
    AllowPlugins,
    Dpi,
    Figures,
    Json,
    Overrides,
    Quiet,
    ScenarioFile,
    Seed,
    Width,
    asked_style,
    load,
    permitted,
)
from fedsim.cli.playground import playground
from fedsim.cli.privacy import privacy
from fedsim.cli.solve import solve
from fedsim.cli.sweep import compare, plan, sweep
from fedsim.cli.trace import app as trace_app
from fedsim.common.errors import ChainError, FedsimError, Mistake, RunError, ScenarioError
from fedsim.common.messages import complain, keep_quiet, say, say_json
from fedsim.common.stderr import never_wait_on_stderr

if TYPE_CHECKING:
    from fedsim.scenario import Scenario

Template = Literal["phones", "paper", "buffered", "privacy", "trace"]

BAD_USAGE, CRASHED, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    help="Simulate who takes part, and when, in cross-device federated learning, and what that does to the model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(trace_app, name="trace")
app.add_typer(export_app, name="export")
for command in (chain, playground, privacy, solve, plan, sweep, compare):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line; errors that a person can put right are shown without a traceback."""
    never_wait_on_stderr()
    gc.set_threshold(50_000, 20, 100)  # imports and charts make many objects that stay, and little that is in cycles
    atexit.register(gc.freeze)  # the process ends: what it holds need not be searched for cycles once more
    try:
        code = app(prog_name="fedsim", standalone_mode=False)
    except typer.Exit as stop:  # what a command asked for
        sys.exit(stop.exit_code)
    except ScenarioError as error:
        complain("\n".join([str(error), *_notes(error)]))
        sys.exit(BAD_USAGE)
    except FedsimError as error:
        complain("\n".join([f"error: {error}", *_notes(error)]))
        sys.exit(BAD_USAGE if isinstance(error, ChainError | RunError) else CRASHED)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        sys.exit(INTERRUPTED)
    except MemoryError:
        complain("error: there is not enough memory; take fewer devices, rounds or clients, or a smaller problem")
        sys.exit(CRASHED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(CRASHED)
    except Exception as error:
        if _came_of_an_interrupt(error):  # in compiled code, which makes another error of it
            complain("interrupted")
            sys.exit(INTERRUPTED)
        show = getattr(error, "show", None)  # click's usage errors know how to show themselves
        if show is None:
            raise
        show()
        sys.exit(BAD_USAGE)
    if code == INTERRUPTED:  # typer's answer to Ctrl-C
        complain("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _notes(error: FedsimError) -> list[str]:
    return getattr(error, "__notes__", [])


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        say(f"fedsim {__version__}")
        raise typer.Exit


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="The scenario file to write.")] = Path("first.fedsim.yaml"),
    template: Annotated[
        Template,
        typer.Option(
            help="phones: devices with habits, in time zones. paper: always available clients with unequal weights. "
            "buffered: a server without rounds. privacy: which separation serves a private federation best. trace: "
            "recorded devices."
        ),
    ] = "phones",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a scenario to start from, and the JSON Schema that lets editors complete and check it."""
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json
    from fedsim.scenario import scenario_schema, starter
    from fedsim.scenario.starter import starter_trace

    name = path.name.removesuffix(".yaml").removesuffix(".fedsim")
    written = {path: starter(name, template)}
    if template == "trace":
        written[path.with_name(f"{name}.csv")] = starter_trace()
    for file in written:
        if file.exists() and not force:
            raise RunError(f"{file} exists; choose another name, or replace it with --force")
    written[path.with_name("fedsim.schema.json")] = as_json(scenario_schema())
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, text in written.items():
        write_text(file, text)
    say(str(path))
    command = "sweep" if template == "privacy" else "run"
    complain(f"Wrote {', '.join(map(str, written))}. Run it: fedsim {command} {shlex.quote(str(path))}")


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files.")],
    override: Overrides = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but mistakes.")] = False,
) -> None:
    """Check scenario files without running them; every mistake is shown with its line and column."""
    from fedsim.experiment.preflight import made_ready, notes_of

    mistakes: list[Mistake] = []
    for file in files:
        try:
            scenario = load(file, override, None, allow_plugins, allow_outside)
            _check_charts(scenario)
            ready = made_ready(scenario)
        except ScenarioError as error:
            mistakes += error.mistakes
        else:
            if quiet:
                continue
            for note in [*ready.notes, *notes_of(scenario, ready.population)]:
                complain(f"{file}: note: {note}")
            say(f"{file}: ok")
    if mistakes:
        raise ScenarioError(mistakes)


@app.command()
def schema(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to a file.")] = None,
) -> None:
    """Print the JSON Schema of the scenario file."""
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json
    from fedsim.scenario import scenario_schema

    text = as_json(scenario_schema())
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_text(out, text)


@app.command()
def metrics(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A scenario file, for metrics of its own.")
    ] = None,
    override: Overrides = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
) -> None:
    """List the names of all metrics, with their units and meanings; those of a scenario's own last."""
    from fedsim.analysis.metrics import listed
    from fedsim.analysis.metrics.own import made_metrics

    known = list(listed())
    if file is not None:
        scenario = load(file, override, None, allow_plugins, allow_outside)
        own, mistakes = made_metrics(scenario)
        if mistakes:
            raise ScenarioError(mistakes)
        known += [metric for each in own for metric in each.metrics]
    if as_json:
        say_json([vars(metric) for metric in known])
        return
    width = max(len(metric.name) for metric in known)
    for metric in known:
        say(f"{metric.name:<{width}}  {metric.unit:<7}  {metric.meaning}")


@app.command()
def run(
    file: ScenarioFile,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run directory to write; by default runs/NAME, and with --set, --seed or --engine runs/NAME-HASH, "
            "a folder for each change.",
        ),
    ] = None,
    override: Overrides = None,
    seed: Seed = None,
    engine: Annotated[str | None, typer.Option(help="Override the engine: auto, process or vectorized.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run of this scenario.")] = False,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario: simulate, measure against theory, train, and write the run directory with its report."""
    from fedsim.common.json_files import finite
    from fedsim.common.progress import on_stderr
    from fedsim.experiment.cautions import of_figures
    from fedsim.experiment.key_figures import key_figures
    from fedsim.experiment.record import record
    from fedsim.experiment.run_directory import Provenance, default_directory
    from fedsim.limits.verdict import judge

    overrides = [*(override or []), *([f"engine={engine}"] if engine is not None else [])]
    scenario = load(file, overrides, seed, allow_plugins, allow_outside)
    _check_charts(scenario)
    hear = keep_quiet if quiet else complain
    directory = out if out is not None else default_directory(scenario, changed=bool(overrides) or seed is not None)
    provenance = Provenance(str(file), overrides, seed, permissions=scenario.permissions)
    try:
        with on_stderr(quiet=quiet) as report:
            done = record(scenario, directory, provenance, resume=resume, report=report, tell=hear)
    except KeyboardInterrupt:
        complain(f"To go on: {provenance.command_here('--out', str(directory), '--resume')}")
        raise
    verdict = judge(scenario, [done.metrics], done.own)
    if as_json:
        judged = [judgement.as_dict() for judgement in verdict]
        shown = {"directory": str(directory), "report": str(done.page), "metrics": finite(done.metrics)}
        say_json({**shown, "verdict": judged})
    else:
        for words, figure in key_figures(done.metrics):
            hear(f"{words:<42} {figure:>12}")
        for caution in of_figures(scenario, done.metrics):
            hear(f"note: {caution}")
        hear(f"Report: {done.page}")
        say(str(directory))
    if not verdict:
        raise typer.Exit
    from fedsim.ci.commands import show_verdict

    raise typer.Exit(show_verdict(verdict, str(file), quiet=quiet))


@app.command()
def replay(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Scenario files, and folders to search.")],
    update: Annotated[bool, typer.Option("--update", help="Bring the lock files up to date.")] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="Fail on a missing or unused lock; CI=1 in the environment implies it.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JUnit XML.")] = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the results as Markdown, e.g. to $GITHUB_STEP_SUMMARY.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep the first run of each file in DIR, with its report; by default none is."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes; by default as many as processors.")
    ] = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing of files that pass.")] = False,
) -> None:
    """Replay scenario files like tests: check their limits (expect) and that no figure has drifted from its lock."""
    from fedsim.ci.commands import replay_command

    if update and locked:
        raise typer.BadParameter("leaves the lock files as they are; give one or the other", param_hint="--locked")
    may = permitted(allow_plugins, allow_outside)
    code = replay_command(
        paths,
        update=update,
        locked=locked,
        junit=junit,
        summary=summary,
        keep=out,
        workers=workers,
        as_json=as_json,
        quiet=quiet,
        permissions=may,
    )
    raise typer.Exit(code)


def _check_charts(scenario: "Scenario") -> None:
    if not scenario.charts:
        return
    from fedsim.report.own_charts import check_charts

    if mistakes := check_charts(scenario):
        raise ScenarioError(mistakes)


@app.command()
def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run or sweep directories.")],
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="html (a page) or md (a summary); of figures png, svg or pdf."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file for one page or summary, else a folder; by default DIR itself."),
    ] = None,
    figures: Figures = None,
    width: Width = None,
    dpi: Dpi = None,
    allow_plugins: AllowPlugins = False,
) -> None:
    """Report on runs and sweeps: a page that mails well, a summary in Markdown (on stdout), or figures for a paper."""
    page = (form or "html") if figures is None and form in {None, "html", "md"} else None
    style = asked_style(figures, form if page is None else None, width, dpi)
    if figures is not None and out is not None:
        raise typer.BadParameter("is for pages and summaries; --figures names a folder itself", param_hint="--out")
    from fedsim.report import report_directories, report_figures

    if figures is not None and style is not None:
        written = [
            str(path) for path in report_figures(directories, figures, style, plugins=allow_plugins, tell=complain)
        ]
    else:
        written = report_directories(directories, page or "html", out, plugins=allow_plugins, tell=complain)
    for line in written:
        say(line)


if __name__ == "__main__":
    main()
