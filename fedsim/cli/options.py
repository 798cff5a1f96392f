"""Arguments and options that several commands have, and the scenario that they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedsim.scenario import Scenario
    from fedsim.scenario.permissions import Permissions

ScenarioFile = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (*.fedsim.yaml).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key, e.g. population.*.separation=8; repeatable."),
]
Seed = Annotated[int | None, typer.Option(help="Override the seed.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]
AllowPlugins = Annotated[
    bool, typer.Option("--allow-plugins", help="Let scenarios run code of your own (kind: module:Name).")
]
AllowOutside = Annotated[bool, typer.Option("--allow-outside", help="Let scenarios read files outside their folder.")]


def load(
    file: Path, overrides: list[str] | None, seed: int | None, allow_plugins: bool, allow_outside: bool
) -> "Scenario":
    """Read a scenario with what it is allowed, which includes to find modules beside it.

    Raises
    ------
    ScenarioError
        With every mistake.
    """
    from fedsim.scenario.imports import open_scenario

    return open_scenario(file, permitted(allow_plugins, allow_outside), overrides or [], seed)


def permitted(allow_plugins: bool, allow_outside: bool) -> "Permissions":
    """Return what the two options allow."""
    from fedsim.scenario.permissions import Permissions

    return Permissions(allow_plugins, allow_outside)
