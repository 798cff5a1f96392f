"""What `fedsim report` and `fedsim compare --report` do: reports in the format and the place that were asked for."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from fedsim.common.errors import RunError
from fedsim.common.files import write_text
from fedsim.common.markup import block, code, escape, table
from fedsim.common.printable import printable
from fedsim.report.answer import Sentence
from fedsim.report.document import ReportDocument
from fedsim.report.formatting import distinct
from fedsim.report.page import PAGE, checked_document_of, make_folder, write_document
from fedsim.report.tables import Table
from fedsim.report.verdict import Verdict

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
    """Report on run or sweep directories, and return what to print: the files written, or the summaries.

    Parameters
    ----------
    form
        ``html`` for pages, ``md`` for summaries.
    out
        A file for the page or the summary of one directory; else a folder, which gets a folder for each of several
        directories, and a page that lists theirs. By default pages go into the directories themselves, and
        summaries are returned.
    plugins, tell
        As of `write_report`.

    Raises
    ------
    RunError
        A directory is not that of a run or a sweep, or something cannot be read or written.
    """
    if out is not None and len(directories) > 1 and out.suffix in _SUFFIXES.get(form, ()):
        raise RunError(f"{out} is one file, but there are {len(directories)} directories to report on; name a folder")
    printed: list[str] = []
    reports: list[tuple[str, ReportDocument]] = []
    for directory, place in zip(directories, _places(directories, out), strict=True):
        document = checked_document_of(directory, plugins)
        for failure in document.failures:
            tell(failure)
        if form != "md":
            printed.append(str(write_document(document, _page(place or directory))))
        elif place is None:
            printed.append(markdown_summary(document).rstrip("\n"))
        else:
            path = place if place.suffix in _SUFFIXES["md"] else place / SUMMARY
            make_folder(path.parent)
            write_text(path, markdown_summary(document))
            printed.append(str(path))
        reports += [] if place is None else [(f"{quote(place.name)}/{PAGE}", document)]
    if form == "html" and out is not None and len(directories) > 1:
        listed = f"{len(directories)} reports, made by fedsim report."
        index = ReportDocument(
            "index", out.resolve().name, description=listed, context={"sections": [("Reports", reports)]}
        )
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


_ROWS = 20  # rows of a table shown at most
_MARKS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "unjudged": "❔"}


def _plain_table(shown: Table) -> str:
    """Write a table of the report, at most `ROWS` rows of it."""
    text = table(
        [escape(head) for head in shown.header], [[escape(cell) for cell in row] for row in shown.rows[:_ROWS]]
    )
    left = len(shown.rows) - _ROWS
    return f"**{escape(shown.caption)}**\n\n{text}" + (f"\n\n{left} more rows in the report." if left > 0 else "")


def markdown_summary(document: ReportDocument) -> str:
    """Put a summary together: verdict, answer, key figures, tables, and the command that reruns it."""
    parts = [f"### {escape(document.name)} ({document.kind})"]
    if document.question:
        parts.append(f"*{escape(document.question)}*")
    if document.finding:
        parts.append(f"**{escape(document.finding)}**")
    if (verdict := document.verdict) is not None:
        parts.append(f"{_MARKS[verdict.status]} **{escape(verdict.headline)}**")
        parts.append(_conditions(verdict))
    parts += [_about(about, list(sentences)) for about, sentences in groupby(document.answer, lambda each: each.about)]
    if document.tiles:
        rows = [(escape(tile.label), f"**{escape(tile.value)}**", escape(tile.detail)) for tile in document.tiles]
        parts.append(table(("figure", "value", ""), rows))
    parts += [_plain_table(each) for each in document.tables if each is not None]
    if document.command:
        parts.append(
            f"<details><summary>Run it again</summary>\n\n{block(printable(document.command, None))}\n\n</details>"
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(about: str, sentences: Sequence[Sentence]) -> str:
    text = " ".join(f"**{escape(each.text)}**" if each.warns else escape(each.text) for each in sentences)
    return f"*{escape(about)}:* {text}" if about else text


def _conditions(verdict: Verdict) -> str:
    rows = []
    for condition in (*verdict.attention, *verdict.met):
        figures = dict(condition.figures)
        reasons = "; ".join(escape(text) for text in (condition.why, condition.note) if text)
        rows.append(
            (
                f"{_MARKS[condition.status]} {condition.outcome}",
                code(condition.check),
                *(escape(figures.get(what, "")) for what in ("Observed", "Limit", "Margin")),
                code(condition.place) if condition.place else "",
                reasons,
            )
        )
    text = table(("", "expectation", "observed", "limit", "margin", "place", "why"), rows)
    return f"{text}\n\n{escape(verdict.omitted)}" if verdict.omitted else text
