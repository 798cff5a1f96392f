"""The command line: reads arguments, calls the library, prints; every command imports only what it needs."""

import atexit
import gc
import re
import shlex
import sys
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from traceback import format_exception, walk_tb
from typing import Annotated, Any, Literal, NoReturn, cast

from typer import Abort, Argument, Exit, Option, Typer

from fedsim._version import __version__
from fedsim.cli import options
from fedsim.cli.calibrate import calibrate_command
from fedsim.cli.decide import decide_command
from fedsim.cli.design import design_command
from fedsim.cli.measure import measure_command
from fedsim.cli.pages import export_app, playground_command, report_command
from fedsim.cli.plugin import plugin_app
from fedsim.cli.recording import check_charts_of, record_and_tell
from fedsim.cli.replay import replay_command
from fedsim.cli.separations import chain_command, privacy_command
from fedsim.cli.sweep import compare_command, plan_command, sweep_command
from fedsim.cli.trace import trace_app
from fedsim.common.errors import ChainError, FedsimError, Mistake, RunError, ScenarioError, told, users_line
from fedsim.common.interrupts import EXIT_CODE as INTERRUPTED
from fedsim.common.interrupts import THIS_PROCESS
from fedsim.common.messages import complain, never_wait_on_stderr, say, say_json, text_table

Template = Literal["phones", "paper", "buffered", "privacy", "trace", "fleet", "jobs", "decide", "stragglers", "drift"]

UNFORESEEN, BAD_USAGE, CRASHED = 1, 2, 3

app = Typer(
    cls=options.CommandGroup,
    help="Simulate who takes part, and when, in cross-device federated learning, and what that does to the model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help without frames, in half of the time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run_app() -> NoReturn:
    """Run the command line; errors that a person can put right are shown without a traceback."""
    never_wait_on_stderr()
    gc.set_threshold(50_000, 20, 100)  # imports and charts make many objects that stay, and little that is in cycles
    atexit.register(gc.freeze)  # the process ends: what it holds need not be searched for cycles once more
    try:
        code = app(prog_name="fedsim", standalone_mode=False)
    except Exit as stop:  # what a command asked for, unless a class of a user's own did
        code = _told(stop) if users_line(stop) else stop.exit_code
    except (KeyboardInterrupt, Abort):
        complain("interrupted")
        code = INTERRUPTED
    except MemoryError:
        complain("error: there is not enough memory; take fewer devices, rounds or clients, or a smaller problem")
        code = CRASHED
    except BrokenPipeError:
        sys.stderr.close()
        code = CRASHED
    except BaseException as error:  # polars panics with one that is no `Exception`
        if isinstance(error, SystemExit) and _innermost(error) in {
            "typer",
            "click",
        }:  # completion is installed or asked
            raise
        code = _told(error)
    else:
        if code == INTERRUPTED or THIS_PROCESS.asked:  # typer's answer to Ctrl-C, or one that Python has dropped
            complain("interrupted")
            code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _innermost(error: BaseException) -> str:
    """Return the package whose line raised an error."""
    (*_, (frame, _)) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _told(error: BaseException) -> int:
    """Show an error, with a traceback if it is our own and unforeseen, and return the exit code."""
    if THIS_PROCESS.asked or _came_of_an_interrupt(error):  # in compiled code, which makes another error of it
        complain("interrupted")
        return INTERRUPTED
    if isinstance(error, FedsimError):
        words = str(error) if isinstance(error, ScenarioError) else f"error: {error}"
        complain("\n".join([words, *getattr(error, "__notes__", [])]), red=True)
        return BAD_USAGE if isinstance(error, ScenarioError | ChainError | RunError) else CRASHED
    if users_line(error) or isinstance(error, SystemExit):
        complain(f"error: {told(error)}", red=True)
        return CRASHED
    if isinstance(error, OSError) and error.filename:  # a name that is too long, a folder that cannot be searched
        complain(f"error: {error.filename}: {error.strerror}")
    elif isinstance(error, RuntimeError) and re.search("Symlink loop|home directory", str(error)):  # of pathlib
        complain(f"error: {error}")
    elif hasattr(usage := cast("Any", error), "show"):  # click's usage errors know how to show themselves
        possible = getattr(usage, "possibilities", None)
        if possible and hasattr(usage, "option_name"):  # like it without the hyphens that all options have
            near = get_close_matches(usage.option_name.strip("-"), [each.strip("-") for each in possible])
            usage.possibilities = [each for each in possible if each.strip("-") in near]
        usage.show()
    else:
        complain("".join(format_exception(error)).rstrip())
        return UNFORESEEN
    return BAD_USAGE


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        say(f"fedsim {__version__}")
        raise Exit


def init_command(
    path: Annotated[Path, Argument(help="The scenario file to write.")] = Path("first.fedsim.yaml"),
    template: Annotated[
        Template,
        Option(
            help="phones: devices with habits, in time zones. paper: always available clients with unequal weights. "
            "buffered: a server without rounds. privacy: which separation serves a private federation best. trace: "
            "recorded devices. fleet: sessions from work, in gigabytes, watt-hours and money. "
            "jobs: several training jobs that share the devices. decide: which separation and cohort to choose. "
            "stragglers: unequal work and partial reports. drift: habits that change over weeks."
        ),
    ] = "phones",
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a scenario to start from, and the JSON Schema that lets editors complete and check it."""
    from fedsim.common.files import write_new, write_text
    from fedsim.common.json_files import as_json
    from fedsim.scenario import checked_text, scenario_schema, starter, starter_trace

    name = path.name.removesuffix(".yaml").removesuffix(".fedsim")
    written = {path: checked_text(starter(name, template), path)}
    if template == "trace":
        written[path.with_name(f"{name}.csv")] = starter_trace()
    write_new(written, "choose another name, or replace it with --force", force=force)
    schema = path.with_name("fedsim.schema.json")
    write_text(schema, as_json(scenario_schema()))
    say(str(path))
    command = {"privacy": "sweep", "decide": "decide"}.get(template, "run")
    complain(f"Wrote {', '.join(map(str, [*written, schema]))}. Run it: fedsim {command} {shlex.quote(str(path))}")


def validate_command(
    files: Annotated[list[Path], Argument(metavar="FILE...", help="Scenario files.", callback=options.meant)],
    override: options.Overrides = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    quiet: Annotated[bool, Option("-q", "--quiet", help="Print nothing but mistakes.")] = False,
) -> None:
    """Check scenario files without running them; every mistake is shown with its line and column."""
    from fedsim.run.measured import federation_of_log
    from fedsim.run.preflight import checked, notes_of
    from fedsim.trials.decide import planned_decision
    from fedsim.trials.stages import in_full

    mistakes: list[Mistake] = []
    for file in files:
        try:
            scenario = options.load_scenario(file, override, None, allow_plugins, allow_outside, several=True)
            check_charts_of(scenario)
            federations, decides = {}, scenario.choose and scenario.decide is not None
            whole = in_full(scenario) if decides else None
            if scenario.log is None:
                federations = checked(scenario if whole is None else whole.scenario)
            else:
                federation_of_log(scenario)
            if decides:
                planned_decision(scenario)  # every setting
        except ScenarioError as error:
            mistakes += error.mistakes
        else:
            if quiet:
                continue
            if whole is not None and whole.scale > 1:
                text = f"`fedsim decide` trains {whole.scenario.devices:,} of the {scenario.devices:,} devices"
                complain(f"{file}: note: {text}: what follows is of these.")
            for job, federation in federations.items():
                for note in notes_of(federation, job):
                    complain(f"{file}: {note}")
            say(f"{file}: ok")
    if mistakes:
        raise ScenarioError(mistakes)


def schema_command(out: Annotated[Path | None, Option(metavar="FILE", help="Write it to a file.")] = None) -> None:
    """Print the JSON Schema of the scenario file."""
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json
    from fedsim.scenario import scenario_schema

    text = as_json(scenario_schema())
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_text(out, text)


def metrics_command(
    file: Annotated[
        Path | None,
        Argument(
            metavar="FILE|NAME",
            help="A scenario file, for metrics of its own; or a name, such as fleet.cost or 'rounds.*', to list these.",
            callback=options.meant,
        ),
    ] = None,
    override: options.Overrides = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
) -> None:
    """List metrics: their names, units and meanings; those of a scenario's own last."""
    from fedsim.measure.metrics import describe, listed
    from fedsim.measure.metrics.own import made_metrics

    metrics = list(listed())
    asked = [each for each in metrics if fnmatchcase(each.name, str(file)) or each is describe(str(file))]
    if asked and file is not None and not file.exists():
        metrics = asked
    elif file is not None:
        scenario = options.load_scenario(file, override, None, allow_plugins, allow_outside, several=True)
        instances, mistakes = made_metrics(scenario)
        if mistakes:
            raise ScenarioError(mistakes)
        metrics += [metric for each in instances for metric in each.metrics]
    if as_json:
        say_json([vars(metric) for metric in metrics])
        return
    say(text_table("<<<", [(metric.name, metric.unit, metric.meaning) for metric in metrics]))


def run_command(
    file: options.ScenarioPath,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Run directory to write; by default runs/NAME, and with --set, --seed or --engine runs/NAME-HASH, "
            "a folder for each change.",
        ),
    ] = None,
    override: options.Overrides = None,
    seed: options.Seed = None,
    engine: Annotated[str | None, Option(help="Override the engine: auto, process or vectorized.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Go on in DIR from what an interrupted or killed run of this scenario has kept.")
    ] = False,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    page: options.Page = True,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if a chart of your own fails.")] = False,
) -> None:
    """Run a scenario: simulate, measure against theory, train, and write the run directory with its report."""
    from fedsim.measure.limits import measurable
    from fedsim.run.files import Provenance, default_directory

    overrides = [*(override or []), *([f"engine={engine}"] if engine is not None else [])]
    scenario = options.load_scenario(file, overrides, seed, allow_plugins, allow_outside, several=True)
    if overrides and (scenario.expect or scenario.drift or scenario.headline):
        written = options.load_scenario(file, None, seed, allow_plugins, allow_outside, several=True)
        scenario, gone = measurable(scenario, written)
        for metric in gone:
            complain(f"notice: the changed scenario has no {metric}: what the scenario asks of it is left out")
    directory = out if out is not None else default_directory(scenario, changed=bool(overrides) or seed is not None)
    provenance = Provenance(str(file), overrides, seed, permissions=scenario.permissions)
    record_and_tell(
        scenario, directory, provenance, resume=resume, as_json=as_json, quiet=quiet, page=page, strict=strict
    )


_COMMANDS = {
    "Start": (init_command, validate_command, playground_command),
    "Simulate": (run_command, report_command, compare_command, metrics_command),
    "Choose": (plan_command, sweep_command, decide_command, design_command),
    "Theory": (chain_command, privacy_command),
    "Continuous integration and plug-ins": (replay_command, schema_command, plugin_app),
    "Data": (measure_command, calibrate_command, trace_app, export_app),
}
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        if isinstance(_command, Typer):
            app.add_typer(_command, rich_help_panel=_panel)
        else:
            app.command(_command.__name__.removesuffix("_command"), rich_help_panel=_panel)(_command)
for _typer in (app, plugin_app, trace_app, export_app):
    for _registered in _typer.registered_commands:
        if _registered.callback is not None:
            _registered.callback = options.on_local_files(_registered.callback)
