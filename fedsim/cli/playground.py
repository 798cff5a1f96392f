"""The command ``fedsim playground``: a page that answers "which R should I choose?" for numbers of one's choice."""

from pathlib import Path
from typing import Annotated

import typer

from fedsim.cli.options import AllowOutside, AllowPlugins, Overrides, Seed, load
from fedsim.common.messages import complain, say


def playground(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A scenario file to start with.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("playground.html"),
    override: Overrides = None,
    seed: Seed = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
) -> None:
    """Write a page that computes who takes part how often, for clients, cohort, R and weights chosen in the page."""
    from fedsim.report.playground import write_playground

    if file is None and (override or seed is not None):
        raise typer.BadParameter("changes a scenario file; name one", param_hint="--set" if override else "--seed")
    scenario = None if file is None else load(file, override, seed, allow_plugins, allow_outside)
    for note in write_playground(out, scenario, file):
        complain(f"note: {note}")
    say(str(out))
