"""Reports written as pages, each file whole or not there; and the part of one that a notebook shows."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsim.common.errors import RunError
from fedsim.common.files import write_text
from fedsim.experiment.finished import open_finished
from fedsim.report.charts.chart import Chart
from fedsim.report.document import ReportDocument, pictures_of, render, render_part
from fedsim.report.render import picture
from fedsim.sweeps.store import SWEEP_FILE

if TYPE_CHECKING:
    from fedsim.report.gathered import Gathered

PAGE = "report.html"

_COLORS = re.compile(r"(--[a-z0-9-]+: #[0-9a-f]{6};)")


def document_of(directory: Path, plugins: bool = False, gathered: "Gathered | None" = None) -> ReportDocument:
    """Compute the report of a run or sweep directory; `plugins` lets it import code for charts of the scenario's own.

    A run's participations are not read again where `gathered` has what the page needs of them.

    Raises
    ------
    RunError
        The directory lacks a file or has an unreadable one; the message names it.
    """
    if (directory / SWEEP_FILE).exists():
        from fedsim.report.finished_sweep import read_finished_sweep
        from fedsim.report.sweep_report import sweep_document

        return sweep_document(read_finished_sweep(directory))
    from fedsim.report.finished_run import read_run
    from fedsim.report.run_report import run_document

    return run_document(read_run(directory, gathered), plugins)


def checked_document_of(directory: Path, plugins: bool = False) -> ReportDocument:
    """Compute the report of a directory whose files are those that were written there, as their fingerprints say.

    Raises
    ------
    RunError
        As of `document_of`; or a file is not the one that the run wrote.
    """
    if not (directory / SWEEP_FILE).exists():
        open_finished(directory)
    return document_of(directory, plugins)


def write_report(
    directory: Path,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    gathered: "Gathered | None" = None,
) -> Path:
    """Write `report.html` into a run or sweep directory, from nothing but what was left there; return the page.

    Parameters
    ----------
    page
        Where to write the page instead. It is written under a temporary name and renamed, so it is whole or not there.
    plugins
        Import code for charts of the scenario's own; without, the page says that they were left out.
    tell
        Called with a text for each of them that failed.
    gathered
        What the page needs of a run's participations, where it is known already; the page is the same without.

    Raises
    ------
    RunError
        The directory lacks a file, has an unreadable one, or cannot be written; the message names it.
    """
    document = document_of(directory, plugins, gathered)
    for failure in document.failures:
        tell(failure)
    return write_document(document, directory / PAGE if page is None else page)


def write_document(document: ReportDocument, page: Path) -> Path:
    """Write the page of a document, and make the folder for it."""
    text = render(document, pictures_of(document))
    make_folder(page.parent)
    write_text(page, text)
    return page


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there.

    Raises
    ------
    RunError
        It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def notebook_fragment(directory: Path) -> str:
    """Return what a notebook shows of a run directory: verdict, answer, key figures and the first chart, as HTML.

    Its style reaches nothing outside it.

    Raises
    ------
    RunError
        The directory lacks a file or has an unreadable one; the message names it.
    """
    document = document_of(directory)
    shown = next((chart for chart in document.charts["bias"] if isinstance(chart, Chart)), None)
    style = (files("fedsim.report") / "templates" / "report.css").read_text(encoding="utf-8")
    light, _, rest = style.partition("@media screen")
    return render_part(
        "notebook.html.jinja",
        document=document,
        light=Markup(" ".join(_COLORS.findall(light))),
        dark=Markup(" ".join(_COLORS.findall(rest.partition("\n}")[0]))),
        chart=shown,
        picture=None if shown is None else picture(shown),
    )
