"""Arguments and options that several commands have, and the scenario that they mean."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument, BadParameter, Option
from typer.core import TyperGroup

if TYPE_CHECKING:
    from fedsim.pages import FigureStyle
    from fedsim.scenario import Scenario
    from fedsim.scenario.permissions import Permissions

_T = TypeVar("_T")


def meant(given: Any) -> Any:
    """Return the files that are given, if any, with those of fedsim in place of paper/NAME."""
    from fedsim.scenario import shipped

    return [shipped(each) for each in given] if isinstance(given, list) else given and shipped(given)


ScenarioPath = Annotated[
    Path,
    Argument(metavar="FILE", help="A scenario file (*.fedsim.yaml), or one of fedsim: paper/NAME.", callback=meant),
]
Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. 'population.*.separation=8'; repeatable."),
]
Seed = Annotated[int | None, Option(help="Override the seed.")]
SeparationOption = Annotated[
    str | None,
    Option("--separation", metavar="R", help="8, 0:499 (both ends included) or 0,4,8; by default the scenario's own."),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON alone on stdout.")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Tell nothing on stderr but errors and missed limits.")]
Page = Annotated[
    bool, Option("--page/--no-page", "--report/--no-report", help="Write the page, report.html, at the end.")
]
AllowPlugins = Annotated[
    bool, Option("--allow-plugins", help="Let scenarios run code of your own (kind: module:Name).")
]
AllowOutside = Annotated[bool, Option("--allow-outside", help="Let scenarios read files outside their folder.")]

Executor = Annotated[
    str, Option(metavar="WHERE", help="process, dask=ADDRESS, ray=ADDRESS or package.module:function.")
]
Workers = Annotated[int | None, Option(min=1, metavar="N", help="Runs at once; by default one for each processor.")]
Retries = Annotated[int, Option(min=0, metavar="N", help="Further attempts for a run that is lost.")]
Timeout = Annotated[
    str | None,
    Option(metavar="DURATION", help="Of a run; by default 20 times what is planned for it, at least 10 min."),
]

Figures = Annotated[Path | None, Option(metavar="FOLDER", help="Write the figures into a folder, and nothing else.")]
FigureFormat = Annotated[str | None, Option("--format", metavar="FORMAT", help="Of figures: png, svg or pdf.")]
Width = Annotated[
    str | None, Option(metavar="LENGTH", help="Width of figures, e.g. 3.25in, 84mm, 240pt; by default 4.4in.")
]
Dpi = Annotated[int | None, Option(metavar="N", help="Dots an inch of PNG figures; by default 200.")]


def asked_style(figures: Path | None, form: str | None, width: str | None, dpi: int | None) -> "FigureStyle | None":
    """Return how figures are to be written; None where none are asked for."""
    if figures is None and form is None and width is None and dpi is None:
        return None
    from fedsim.pages import figure_style

    asked: dict[str, dict[str, Any]] = {"--format": {"form": form}, "--width": {"width": width}, "--dpi": {"dpi": dpi}}
    for option, given in asked.items():
        parse_option(lambda each: figure_style(**each), given, option)
        if figures is None and None not in given.values():
            raise BadParameter("is of figures; name a folder for them with --figures", param_hint=option)
    return parse_option(lambda each: figure_style(*each), (form, width, dpi), "--dpi")  # whether they go together


class CommandGroup(TyperGroup):
    """Lists commands by what they are for, each with the whole first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the sections of the list."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            help_ = (command.help or "").partition("\n\n")[0]
            panels.setdefault(panel or "Commands", []).append((name, " ".join(help_.split())))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def on_local_files(command: Callable[..., _T]) -> Callable[..., _T]:
    """Return a command that refuses an address in the place of any of its paths before it does anything."""

    @wraps(command)
    def checked(**given: Any) -> _T:
        from fedsim.common.arguments import check_local

        for value in given.values():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    check_local(path)
        return command(**given)

    return checked


def parse_option(parse: Callable[[Any], _T], value: Any, option: str) -> _T:
    """Return what `parse` makes of an option's value; its `ValueError` becomes a mistake in that option."""
    try:
        return parse(value)
    except ValueError as error:
        raise BadParameter(str(error), param_hint=option) from None


def check_not_read(out: Path | None, read: Iterable[Path | None]) -> None:
    """Refuse an output that is one of the files that are read, whatever it is called: what it holds would be lost."""
    if out is not None and out.exists() and any(each and each.exists() and out.samefile(each) for each in read):
        raise BadParameter(f"{out} is read, so that it would be lost; name another file", param_hint="--out")


def duration_option(text: str | None, option: str) -> float | None:
    """Return the seconds of an option such as ``90s``, if it is given."""
    from fedsim.scenario.units import parse_duration

    return None if text is None else parse_option(parse_duration, text, option)


def timeout_option(text: str | None, option: str = "--timeout") -> float | None:
    """Return the seconds of ``--timeout``, or of another such option, if it is given."""
    limit_s = duration_option(text, option)
    if limit_s is not None and limit_s <= 0:
        raise BadParameter("must be longer than nothing", param_hint=option)
    return limit_s


def load_scenario(
    file: Path,
    overrides: list[str] | None,
    seed: int | None,
    allow_plugins: bool,
    allow_outside: bool,
    *,
    several: bool = False,
) -> "Scenario":
    """Read a scenario with its permissions, imports of modules included; one of `several` servers only if these fit."""
    from fedsim.scenario import open_scenario

    read = open_scenario(file, permitted(allow_plugins, allow_outside), overrides or [], seed)
    return read if several else read.check_one()


def permitted(allow_plugins: bool, allow_outside: bool) -> "Permissions":
    """Return what the two options allow."""
    from fedsim.scenario.permissions import Permissions

    return Permissions(allow_plugins, allow_outside)
