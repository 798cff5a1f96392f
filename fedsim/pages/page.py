"""Reports written as files: pages, summaries, figures; and the part of a page that a notebook shows."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fedsim.common.errors import RunError
from fedsim.common.files import write_bytes, write_text
from fedsim.common.formatting import distinct, listing
from fedsim.pages.answer import Answer
from fedsim.pages.summary import json_summary, markdown_summary
from fedsim.run.jobs import SharedRun
from fedsim.run.load import load
from fedsim.run.run import Run
from fedsim.trials.store import SWEEP_FILE
from fedsim.trials.trials import Trials, answering_in

PAGE, INDEX = "report.html", "index.html"


def answer_of(what: Path | Run, plugins: bool = False) -> Answer:
    """Compute the answer of a run, or of a run or sweep directory; `plugins` lets it import code for its own charts.

    Raises
    ------
    RunError
        The directory lacks a file or has one that is unreadable, or not the one that the run wrote.
    """
    if isinstance(what, Path) and ((what / SWEEP_FILE).exists() or answering_in(what)):
        from fedsim.pages.trials import trials_answer

        return trials_answer(Trials.read(what))
    from fedsim.pages.run import run_answer

    run = load(what) if isinstance(what, Path) else what
    if isinstance(run, SharedRun):
        from fedsim.pages.jobs import jobs_answer

        return jobs_answer(run)
    return run_answer(run, plugins)


def write_report(
    what: Path | Run,
    page: Path | None = None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    answered: Callable[[Answer], None] = lambda _: None,
) -> Path:
    """Write the page of a run, or of a run or sweep directory, by default `report.html` there; return its path.

    It is written under a temporary name and renamed, so it is whole or not there. `answered` is called with the answer,
    and `tell` with a text for each chart of the scenario's own that failed. `plugins` and errors are those of
    `answer_of`; a `RunError` says too if the page cannot be written.
    """
    answer = _with_complaints(what, plugins, tell)
    answered(answer)
    return write_answer(answer, page or page_in(what if isinstance(what, Path) else Path()))


def _with_complaints(what: Path | Run, plugins: bool, tell: Callable[[str], None]) -> Answer:
    """Compute an answer, and tell which charts failed."""
    answer = answer_of(what, plugins)
    for failure in answer.failures:
        tell(failure)
    return answer


def write_answer(answer: Answer, page: Path, **context: object) -> Path:
    """Write the page of an answer, and make the folder for it; `context` is what pages of other kinds show."""
    from fedsim.pages.html import render

    return _write(page, render(answer, **context))


def _write(path: Path, text: str) -> Path:
    make_folder(path.parent)
    write_text(path, text)
    return path


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there; a `RunError` says why it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def notebook_fragment(what: Path | Run) -> str:
    """Return what a notebook shows of a run or a directory, as HTML; errors are those of `answer_of`."""
    from fedsim.pages.html import as_fragment

    return as_fragment(answer_of(what))


_SUFFIXES = {"html": {".html", ".htm"}, "md": {".md", ".markdown"}, "json": {".json"}}


def report_directories(
    directories: Sequence[Path],
    form: str,
    out: Path | None,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Report on run or sweep directories, and return what to print: the files written, or the summaries.

    The form is ``html`` for pages, ``md`` for summaries, or ``json`` for answers, a line for each directory. `out` is
    a file for one directory; else a folder, which gets a folder for each of several directories, and a page that lists
    theirs. By default pages go into the directories themselves, and summaries are returned. `tell` is called with a
    text for each chart of the scenario's own that failed.

    Raises
    ------
    RunError
        A directory is not that of a run or a sweep, or something cannot be read or written.
    """
    if out is not None and len(directories) > 1 and out.suffix in _SUFFIXES.get(form, ()):
        raise RunError(f"{out} is one file, but there are {len(directories)} directories to report on; name a folder")
    printed, entries = list[str](), list[Mapping[str, object]]()
    for directory, place in zip(directories, _places(directories, out), strict=True):
        answer = _with_complaints(directory, plugins, tell)
        if form == "html":
            printed.append(str(write_answer(answer, page_in(place or directory))))
        else:
            text = (markdown_summary if form == "md" else json_summary)(answer).rstrip("\n")
            path = None if place is None else place if place.suffix in _SUFFIXES[form] else place / f"report.{form}"
            printed.append(text if path is None else str(_write(path, f"{text}\n")))
        entries += [] if place is None else [entry(f"{quote(place.name)}/{PAGE}", answer)]
    if form == "html" and out is not None and len(directories) > 1:
        titles = Counter(each["title"] for each in entries)  # those that occur twice need the folder too
        entries = [
            {**each, "title": f"{each['title']} ({place.name if place else ''})"} if titles[each["title"]] > 1 else each
            for each, place in zip(entries, _places(directories, out), strict=True)
        ]
        listed = f"{len(directories)} reports, made by fedsim report."
        index = Answer("index", out.resolve().name, out.resolve().name, description=listed)
        printed.append(str(write_answer(index, out / INDEX, listed={"": entries})))
    return printed


def entry(href: str, answer: Answer) -> Mapping[str, object]:
    """Return what a list of pages shows of one: its question and finding, and what became of expectations."""
    verdict, title = answer.verdict, answer.question or answer.name
    text = answer.headline or answer.description
    outcome, status = (verdict.headline, verdict.status) if verdict is not None else ("", "")
    missed = [each.words for each in verdict.attention if each.status == "fail"] if verdict is not None else []
    outcome = f"{outcome.removesuffix('.')}: {listing(missed)}." if missed else outcome
    return {"href": href, "title": title, "text": text, "outcome": outcome, "status": status}


def page_in(place: Path) -> Path:
    """Return the file of a page, which is the place itself or in that folder."""
    return place if place.suffix in _SUFFIXES["html"] else place / PAGE


def _places(directories: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Give every directory its place: a folder of its own where there are several, named after it."""
    if out is None or len(directories) == 1:
        return [out] * len(directories)
    return [out / name for name in distinct(directory.resolve().name for directory in directories)]


_FORMS: Final = ("png", "svg", "pdf")  # formats of figures
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?|\.\d+) ?(in|cm|mm|pt)")
_WIDTHS = (2.5, 30.0)
_DPI = (50, 2400)
_DOTS = 15_000


@dataclass(frozen=True)
class FigureStyle:
    """How figures are written."""

    form: str = "png"  # ``png``, ``svg`` or ``pdf``
    width: float = 4.4  # inches, from 2.5 to 30
    dpi: int = 200  # dots an inch of PNG files, from 50 to 2,400


def figure_style(form: str | None = None, width: str | None = None, dpi: int | None = None) -> FigureStyle:
    """Read what a person asked for; a width has its unit: ``3.25in``, ``84mm``, ``8.4cm``, ``240pt``.

    Raises
    ------
    ValueError
        One of them is not possible; the message says what would be right.
    """
    usual = FigureStyle()
    match = _LENGTH.fullmatch((width or f"{usual.width}in").strip())
    if match is None:
        raise ValueError(f"{width!r} is not a width: a number and its unit, such as 3.25in, 84mm, 8.4cm or 240pt")
    style = FigureStyle(form or usual.form, float(match[1]) * _INCHES[match[2]], usual.dpi if dpi is None else dpi)
    if style.form not in _FORMS:
        raise ValueError(f"{form!r} is not a format of figures, which are png, svg and pdf")
    if not _DPI[0] <= style.dpi <= _DPI[1]:
        raise ValueError(f"{dpi} dots an inch are out of range: a resolution is from {_DPI[0]} to {_DPI[1]:,}")
    if not _WIDTHS[0] <= style.width <= _WIDTHS[1]:
        raise ValueError(f"{width} is out of range: a figure is from {_WIDTHS[0]:g}in to {_WIDTHS[1]:g}in wide")
    if style.form == "png" and (dots := style.width * style.dpi) > _DOTS:
        raise ValueError(f"{width} at {style.dpi} dots an inch are {dots:,.0f} dots: a figure has at most {_DOTS:,}")
    return style


def report_figures(
    directories: Sequence[Path],
    folder: Path,
    style: FigureStyle,
    *,
    plugins: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the figures of run or sweep directories into a folder, those of several into a folder of its own each.

    `plugins`, `tell` and errors are those of `report_directories`.
    """
    written: list[Path] = []
    for directory, place in zip(directories, _places(directories, folder), strict=True):
        written += write_figures(_with_complaints(directory, plugins, tell), place or folder, style)
    return written


def write_figures(answer: Answer, folder: Path, style: FigureStyle) -> list[Path]:
    """Write the figures of an answer; those of an earlier one that it lacks are removed, in the same format."""
    from fedsim.pages.render import figure_file

    make_folder(folder)
    written = {folder / f"{chart.name}.{style.form}": chart for chart in answer.charts}
    for path, chart in written.items():
        write_bytes(path, figure_file(chart, style.form, style.width, style.dpi))
    for path in folder.glob(f"*.{style.form}"):
        # Left by an earlier report of other tables, it would pass for a figure of these.
        if path not in written and any(fnmatchcase(path.stem, name) for name in answer.figures):
            path.unlink()
    return list(written)
