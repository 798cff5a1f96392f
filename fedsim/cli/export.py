"""The command ``fedsim export``: a run in the form that another tool reads."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedsim.common.messages import complain, say


class _Forms(TyperGroup):
    """Takes ``export DIR --perfetto FILE`` for ``export perfetto DIR --out FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and any(each.partition("=")[0] == "--perfetto" for each in args):
            args = ["perfetto", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Forms, help="Export a run to the format of another tool.", no_args_is_help=True)

RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command()
def perfetto(
    directory: RunDirectory,
    out: Annotated[Path, typer.Option("--out", "--perfetto", metavar="FILE", help="The JSON file to write.")],
) -> None:
    """Write a trace for ui.perfetto.dev or chrome://tracing."""
    from fedsim.bridges.perfetto import export_perfetto

    left_out = export_perfetto(directory, out)
    if left_out:
        complain(f"note: {left_out:,} clients are left out; a trace shows the first 2,000 that took part")
    say(str(out))


@app.command()
def schedule(
    directory: RunDirectory,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write: .parquet, .json or .csv.")],
) -> None:
    """Write the cohort of every round, for a framework that does the training."""
    from fedsim.bridges.schedule import export_schedule

    export_schedule(directory, out)
    say(str(out))
