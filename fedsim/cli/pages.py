"""The commands ``fedsim report | playground | export``: finished runs as pages, figures and files of other tools."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option, Typer

from fedsim.cli import options
from fedsim.common.messages import complain, say


def report_command(
    directories: Annotated[list[Path], Argument(metavar="DIR...", help="Run or sweep directories.")],
    form: Annotated[
        str | None,
        Option(
            "--format",
            metavar="FORMAT",
            help="html (a page), md (a summary) or json (answers, a line for each DIR); of figures png, svg or pdf.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="PATH", help="A file for one page or summary, else a folder; by default DIR itself."),
    ] = None,
    figures: options.Figures = None,
    width: options.Width = None,
    dpi: options.Dpi = None,
    allow_plugins: options.AllowPlugins = False,
) -> None:
    """Report on runs and sweeps: a page that mails well, a summary in Markdown (on stdout), or figures for a paper."""
    page = (form or "html") if figures is None and form in {None, "html", "md", "json"} else None
    style = options.asked_style(figures, form if page is None else None, width, dpi)
    if figures is not None and out is not None:
        raise BadParameter("is for pages and summaries; --figures names a folder itself", param_hint="--out")
    from fedsim.pages import report_directories, report_figures

    if figures is not None and style is not None:
        for path in report_figures(directories, figures, style, plugins=allow_plugins, tell=complain):
            say(str(path))
    else:
        for line in report_directories(directories, page or "html", out, plugins=allow_plugins, tell=complain):
            say(line)


def playground_command(
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="A scenario file to start with.", callback=options.meant)
    ] = None,
    out: Annotated[Path, Option(metavar="FILE", help="The page to write.")] = Path("playground.html"),
    override: options.Overrides = None,
    seed: options.Seed = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
) -> None:
    """Write a page that computes who takes part how often, for clients, cohort, R and weights chosen in the page."""
    from fedsim.pages.playground import write_playground

    if file is None and (override or seed is not None):
        raise BadParameter("changes a scenario file; name one", param_hint="--set" if override else "--seed")
    scenario = None if file is None else options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    for note in write_playground(out, scenario, file):
        complain(f"note: {note}")
    say(str(out))


class _ExportGroup(options.CommandGroup):
    """Takes ``export DIR --perfetto FILE`` for ``export perfetto DIR --out FILE``, and ``export DIR --to FORMAT``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and any(each.partition("=")[0] == "--perfetto" for each in args):
            args = ["perfetto", *args]
        if args and args[0] not in self.commands and "--to" in args[:-1]:
            at = args.index("--to")
            args = [args[at + 1], *args[:at], *args[at + 2 :]]
        return super().parse_args(ctx, args)


export_app = Typer(name="export", cls=_ExportGroup, help="Export a run or sweep to another tool.", no_args_is_help=True)
_RunDirectory = Annotated[Path, Argument(metavar="RUN", help="A run directory.")]
_RunOrSweep = Annotated[Path, Argument(metavar="RUN|SWEEP", help="The directory of a run, sweep or decision.")]


@export_app.command("perfetto")
def perfetto_command(
    directory: _RunDirectory,
    out: Annotated[Path, Option("--out", "--perfetto", metavar="FILE", help="The JSON file to write.")],
) -> None:
    """Write a trace for ui.perfetto.dev or chrome://tracing."""
    from fedsim.bridges.exports import export_perfetto

    _check_no_part(out, directory)
    left_out = export_perfetto(directory, out)
    if left_out:
        complain(f"note: {left_out:,} clients are left out; a trace shows the first 2,000 that took part")
    say(str(out))


@export_app.command("schedule")
def schedule_command(
    directory: _RunDirectory,
    out: Annotated[Path, Option("--out", metavar="FILE", help="The file to write: .parquet, .json or .csv.")],
) -> None:
    """Write the cohort of every round, for a framework that does the training."""
    from fedsim.bridges.exports import export_schedule

    _check_no_part(out, directory)
    export_schedule(directory, out)
    say(str(out))


@export_app.command("csv")
def csv_command(
    directory: _RunDirectory,
    out: Annotated[Path | None, Option("--out", metavar="DIR", help="A folder; by default RUN/csv.")] = None,
) -> None:
    """Write log.csv, clients.csv and rounds.csv: what a production log tells, for fedsim measure."""
    from fedsim.bridges.exports import export_csv

    for path in export_csv(directory, out or directory / "csv"):
        say(str(path))


@export_app.command("tensorboard")
def tensorboard_command(
    directory: _RunOrSweep,
    out: Annotated[Path | None, Option("--out", metavar="DIR", help="A folder; by default RUN/tensorboard.")] = None,
) -> None:
    """Write event files for TensorBoard: parameters, last values, and curves of a run over its rounds."""
    from fedsim.bridges.trackers import export_tensorboard

    export_tensorboard(directory, out or directory / "tensorboard")
    say(str(out or directory / "tensorboard"))


@export_app.command("mlflow")
def mlflow_command(
    directory: _RunOrSweep,
    out: Annotated[str | None, Option("--out", metavar="URI", help="A server, database or folder of MLflow.")] = None,
) -> None:
    """Log to MLflow: parameters, last values, and curves of a run over its rounds; MLFLOW_TRACKING_URI counts too."""
    from fedsim.bridges.trackers import export_mlflow

    number = export_mlflow(directory, out)
    say(f"{number} run{'' if number == 1 else 's'} logged")


def _check_no_part(out: Path, directory: Path) -> None:
    """Refuse to replace a file that the run itself wrote."""
    from fedsim.run.files import ALWAYS, AT_TIMES, MANIFEST, METRICS

    tables = (f"{name}.parquet" for name in (*ALWAYS, *AT_TIMES))
    options.check_not_read(out, (directory / name for name in (MANIFEST, METRICS, *tables)))
