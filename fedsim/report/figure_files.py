"""Figures as files, for papers and slides: PNG, SVG or PDF, of the width and the resolution that were asked for."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from fedsim.common.files import write_bytes
from fedsim.report.document import ReportDocument, charts_of
from fedsim.report.formatting import distinct
from fedsim.report.page import checked_document_of, make_folder
from fedsim.report.render import figure_file

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
    if form is not None and form not in _FORMS:
        raise ValueError(f"{form!r} is not a format of figures, which are png, svg and pdf")
    if dpi is not None and not _DPI[0] <= dpi <= _DPI[1]:
        raise ValueError(f"{dpi} dots an inch are out of range: a resolution is from {_DPI[0]} to {_DPI[1]:,}")
    inches = usual.width
    if width is not None:
        match = _LENGTH.fullmatch(width.strip())
        if match is None:
            raise ValueError(f"{width!r} is not a width: a number and its unit, such as 3.25in, 84mm, 8.4cm or 240pt")
        inches = float(match[1]) * _INCHES[match[2]]
        if not _WIDTHS[0] <= inches <= _WIDTHS[1]:
            least, most = (f"{each / _INCHES[match[2]]:.4g}{match[2]}" for each in _WIDTHS)
            raise ValueError(f"{width} is out of range: a figure is from {least} to {most} wide")
    style = FigureStyle(form or usual.form, inches, dpi or usual.dpi)
    if style.form == "png" and style.width * style.dpi > _DOTS:
        raise ValueError(
            f"{style.width:g}in at {style.dpi} dots an inch are more than {_DOTS:,} dots: a figure has fewer"
        )
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

    `plugins`, `tell` and errors are those of `fedsim.report.write_report`.
    """
    names = distinct(directory.resolve().name for directory in directories)
    places = [folder] if len(directories) == 1 else [folder / name for name in names]
    written: list[Path] = []
    for directory, place in zip(directories, places, strict=True):
        document = checked_document_of(directory, plugins)
        for failure in document.failures:
            tell(failure)
        written += _write_figures(document, place, style)
    return written


def comparison_figures(a: Path, b: Path, folder: Path, style: FigureStyle, confidence: float = 0.95) -> list[Path]:
    """Write the figures of a comparison into a folder."""
    from fedsim.report.comparison_report import comparison_document

    return _write_figures(comparison_document(a, b, confidence), folder, style)


def _write_figures(document: ReportDocument, folder: Path, style: FigureStyle) -> list[Path]:
    """Write the figures of a document; those of an earlier one that it lacks are removed, in the same format.

    Raises
    ------
    RunError
        The folder cannot be made, or a file cannot be written.
    """
    make_folder(folder)
    charts = charts_of(document)
    written = []
    for chart in charts:
        path = folder / f"{chart.name}.{style.form}"
        write_bytes(path, figure_file(chart, style.form, style.width, style.dpi))
        written.append(path)
    names = {chart.name for chart in charts}
    for path in folder.glob(f"*.{style.form}"):
        # Left by an earlier report of other tables, it would pass for a figure of these.
        if path.stem not in names and any(fnmatchcase(path.stem, name) for name in document.names):
            path.unlink()
    return written
