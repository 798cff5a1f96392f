"""Run ``python -m reports.make COMMAND`` in the root of the repository; it needs the extras ``data`` and ``torch``."""

import shutil
from typing import Annotated

import typer

from reports.make.kept import REPORTS, ROOT
from reports.make.pages import make_pages, write_regions
from reports.make.studies import run_studies

app = typer.Typer(help="Make the pages of reports/, and run the studies whose numbers the documentation quotes.")

Names = Annotated[list[str] | None, typer.Argument(help="all, if none is given")]


@app.command()
def pages(names: Names = None) -> None:
    """Make pages, and the lists of them; some minutes on two cores."""
    make_pages(names or [])


@app.command()
def studies(names: Names = None) -> None:
    """Run studies whose names begin so, and write the pages that quote them anew; a wrong name lists all."""
    run_studies(names or [])


@app.command()
def claims() -> None:
    """Write the measured numbers of the documentation anew."""
    write_regions()


@app.command()
def screenshots() -> None:
    """Take the picture of a report that the documentation shows: the first screen of the synthetic run.

    It needs the extra ``test``.
    """
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is needed: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = started.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto((REPORTS / "synthetic.html").absolute().as_uri())
        page.screenshot(path=ROOT / "docs" / "images" / "report.png")
        started.close()


if __name__ == "__main__":
    app()
