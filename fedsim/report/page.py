"""Reports written as pages, each file whole or not there."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fedsim.common.errors import RunError
from fedsim.common.files import write_text
from fedsim.experiment.finished import open_finished
from fedsim.report.document import Document, drawn, render
from fedsim.sweeps.store import SWEEP_FILE

if TYPE_CHECKING:
    from fedsim.report.gathered import Gathered

PAGE = "report.html"


def document_of(directory: Path, plugins: bool = False, gathered: "Gathered | None" = None) -> Document:
    """Compute the report of a run or sweep directory; `plugins` lets it import code for charts of the scenario's own.

    What was `gathered` of a run's participations already is not gathered again.

    Raises
    ------
    RunError
        The directory lacks a file or has an unreadable one; the message names it.
    """
    if (directory / SWEEP_FILE).exists():
        from fedsim.report.finished_sweep import read_sweep
        from fedsim.report.sweep_report import sweep_document

        return sweep_document(read_sweep(directory))
    from fedsim.report.finished_run import read_run
    from fedsim.report.run_report import run_document

    return run_document(read_run(directory, gathered), plugins)


def checked_document_of(directory: Path, plugins: bool = False) -> Document:
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
    """Write `report.html` into a run or sweep directory, from nothing but what was left there.

    Parameters
    ----------
    directory
        A run or sweep directory. The page is written under a temporary name and renamed, so it is whole or not there.
    page
        Where to write the page instead.
    plugins
        Import code for charts of the scenario's own; without, the page says that they were left out.
    tell
        Told which of them failed, and why.
    gathered
        What was gathered of a run's participations while they were measured: the page is the same without.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    RunError
        The directory lacks a file, has an unreadable one, or cannot be written; the message names it.
    """
    document = document_of(directory, plugins, gathered)
    for failure in document.failures:
        tell(failure)
    return write_document(document, directory / PAGE if page is None else page)


def write_document(document: Document, page: Path) -> Path:
    """Write the page of a document, and make the folder for it."""
    text = render(document, drawn(document))
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
