"""Reports written: the page and its figures beside it, each file whole or not there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes, write_text
from fedsim.report.document import Document, drawn, render
from fedsim.report.render import Picture
from fedsim.sweeps.store import SWEEP_FILE

PAGE = "report.html"
FIGURES = "figures"
FORMATS = ("png", "svg")


def document_of(directory: Path, plugins: bool = False) -> Document:
    """Compute the report of a run or sweep directory; `plugins` lets it import code for charts of the scenario's own.

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

    return run_document(read_run(directory), plugins)


def write_report(
    directory: Path,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write `report.html` and `figures/` into a run or sweep directory, from nothing but what was left there.

    Parameters
    ----------
    directory
        A run or sweep directory. Files are written under temporary names and renamed, so each is whole or not there.
    page
        Where to write the page alone instead.
    plugins
        Import code for charts of the scenario's own; without, the page says that they were left out.
    tell
        Told which of them failed, and why.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    RunError
        The directory lacks a file, has an unreadable one, or cannot be written; the message names it.
    """
    document = document_of(directory, plugins)
    for failure in document.failures:
        tell(failure)
    if page is not None:
        return write_document(document, page, None)
    return write_document(document, directory / PAGE, directory / FIGURES)


def write_document(document: Document, page: Path, folder: Path | None) -> Path:
    """Write the page, and the figures beside it unless the folder is None."""
    pictures = drawn(document)
    text = render(document, pictures)
    if folder is not None:
        write_figures(folder, document.names, pictures, FORMATS)
    make_folder(page.parent)
    write_text(page, text)
    return page


def write_figures(
    folder: Path, names: Sequence[str], pictures: Mapping[str, Picture], formats: Iterable[str]
) -> list[Path]:
    """Write the figures, and remove those of an earlier report that no longer apply; returns what was written.

    Names of figures that could be there are patterns as in the shell.
    """
    make_folder(folder)
    written = []
    for form in formats:
        for name, picture in pictures.items():
            path = folder / f"{name}.{form}"
            write_bytes(path, picture.png if form == "png" else picture.svg)
            written.append(path)
        for path in folder.glob(f"*.{form}"):
            # Left by an earlier report of other tables, it would pass for a figure of these.
            if path.stem not in pictures and any(fnmatchcase(path.stem, name) for name in names):
                path.unlink()
    return written


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
