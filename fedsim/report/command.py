"""What `fedsim report` and `fedsim compare --report` do: reports in the format and the place that were asked for."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from fedsim.common.errors import RunError
from fedsim.common.files import write_text
from fedsim.report.document import Document
from fedsim.report.formatting import distinct
from fedsim.report.markdown import summary
from fedsim.report.page import PAGE, checked_document_of, make_folder, write_document

SUMMARY, INDEX = "report.md", "index.html"
_SUFFIXES = {"html": {".html", ".htm"}, "md": {".md", ".markdown"}}


def report_directories(
    directories: Sequence[Path],
    form: str,
    out: Path | None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Report on run or sweep directories.

    Parameters
    ----------
    directories
        What to report on.
    form
        ``html`` for pages, ``md`` for summaries.
    out
        A file for the page or the summary of one directory; else a folder, which gets a folder for each of several
        directories, and a page that lists theirs. By default pages go into the directories themselves, and
        summaries are returned.
    plugins, tell
        As of `write_report`.

    Returns
    -------
    list of str
        What to print: the files written, or the summaries.

    Raises
    ------
    RunError
        A directory is not that of a run or a sweep, or something cannot be read or written.
    """
    if out is not None and len(directories) > 1 and out.suffix in _SUFFIXES.get(form, ()):
        raise RunError(f"{out} is one file, but there are {len(directories)} directories to report on; name a folder")
    printed: list[str] = []
    reports: list[tuple[str, Document]] = []
    for directory, place in zip(directories, _places(directories, out), strict=True):
        document = checked_document_of(directory, plugins)
        for failure in document.failures:
            tell(failure)
        printed += _write(document, form, directory if place is None and form != "md" else place)
        reports += [] if place is None else [(f"{quote(place.name)}/{PAGE}", document)]
    if form == "html" and out is not None and len(directories) > 1:
        listed = f"{len(directories)} reports, made by fedsim report."
        index = Document("index", out.resolve().name, description=listed, context={"sections": [("Reports", reports)]})
        printed.append(str(write_document(index, out / INDEX)))
    return printed


def report_comparison(a: Path, b: Path, out: Path, confidence: float = 0.95) -> Path:
    """Write the report of a comparison: `out` is the page, or a folder for it."""
    from fedsim.report.comparison_report import comparison_document

    document = comparison_document(a, b, confidence)
    return write_document(document, _page(out))


def _page(place: Path) -> Path:
    return place if place.suffix in _SUFFIXES["html"] else place / PAGE


def _places(directories: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Give every directory its place: a folder of its own where there are several, named after it."""
    if out is None or len(directories) == 1:
        return [out] * len(directories)
    return [out / name for name in distinct(directory.resolve().name for directory in directories)]


def _write(document: Document, form: str, place: Path | None) -> list[str]:
    if form == "md":
        if place is None:
            return [summary(document).rstrip("\n")]
        path = place if place.suffix in _SUFFIXES["md"] else place / SUMMARY
        make_folder(path.parent)
        write_text(path, summary(document))
        return [str(path)]
    assert place is not None
    return [str(write_document(document, _page(place)))]
