"""Run ``python -m reports.make COMMAND`` in the root of the repository; it needs the extras ``data`` and ``torch``."""

import sys
from typing import Annotated

import typer

app = typer.Typer(help="Make the pages of reports/, and run the studies whose numbers the documentation quotes.")

Names = Annotated[list[str] | None, typer.Argument(help="all, if none is given")]


@app.command()
def pages(
    names: Names = None, *, redraw: Annotated[bool, typer.Option(help="run only what is missing")] = False
) -> None:
    """Make pages, and the lists of them; some minutes on two cores."""
    from reports.make.pages import make_pages

    make_pages(names or [], redraw=redraw)


@app.command()
def studies(
    names: Names = None, *, listed: Annotated[bool, typer.Option("--list", help="list the names of studies")] = False
) -> None:
    """Run studies, and write the pages that quote them anew."""
    from reports.make.studies import STUDIES, run_studies

    if listed:
        sys.stdout.write("".join(f"{name}\n" for name in STUDIES))
    else:
        run_studies(names or [])


@app.command()
def claims() -> None:
    """Write the measured numbers of the documentation anew."""
    from reports.make.regions import write_pages

    write_pages()


@app.command()
def screenshots() -> None:
    """Take the pictures of reports that the documentation shows."""
    from reports.make.screenshots import take

    take()


if __name__ == "__main__":
    app()
