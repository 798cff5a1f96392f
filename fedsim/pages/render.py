"""Charts turned into pictures: SVG with the page's colours and fonts, and PNG, SVG and PDF files of their own."""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any, cast
from xml.etree import ElementTree

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from fedsim.common.printable import visible
from fedsim.pages.charts import Chart
from fedsim.pages.charts.marks import INK, MUTED, PAPER, RULE, SERIES, characters

_PAGE_WIDTH = 3.5  # inches: on a phone, 343 CSS pixels wide, the smallest text of so narrow a drawing has 11 pixels
LEAST_TEXT = 7.0  # points of the smallest text in a file, however narrow the figure is
_PAD = 1 / 24  # inches around what is drawn
_RATIO = 0.7  # height of the usual figure over its width

_TITLE = 9.2  # points of the title of a figure
_SMALLEST = 8.6  # points of the smallest text in the style sheet
_TEXTS = ("font.size", "axes.labelsize", "axes.titlesize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")

_COLORS = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--card"} | {
    color: f"--series-{index}" for index, color in enumerate(SERIES, start=1)
}
_PAPER = "patch_1"  # the page has one of its own
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_NO_ORIGIN = {"Creator": None, "Producer": None, "CreationDate": None}
_SVG = "{http://www.w3.org/2000/svg}"
_OUTSIDE = {f"{_SVG}metadata", f"{_SVG}style", f"{_SVG}title"}
_XLINK = "{http://www.w3.org/1999/xlink}"
_LINK = re.compile(r"(?:^|url\()#([^)]+)")
_LONG = re.compile(r"\d+\.\d{3,}")
_FONT = re.compile(r"font-size: ([\d.]+)px")


@dataclass(frozen=True)
class Picture:
    """A chart drawn for the page."""

    view_box: str  # the coordinates of the inline SVG
    inline: Markup  # what goes between `<svg>` and `</svg>` in the page: markup, with every text in it escaped
    places: str  # where the rows of the chart's data stand, in these coordinates: "x 31.2 44.8 ..."; "" if nowhere


def picture(chart: Chart) -> Picture:
    """Draw a chart for the page, which has a heading for its title; the same chart gives the same bytes."""
    svg = io.BytesIO()
    with _style(1.0):
        figure = _laid_out(chart, _PAGE_WIDTH)
        figure.savefig(svg, format="svg", metadata=_NO_METADATA)
    return Picture(*_inline(_readable(svg), chart.name), _places(chart, figure))


def _places(chart: Chart, figure: Figure) -> str:
    """Return the axis along which the rows of a chart's data stand, and where on it each is drawn."""
    if chart.table is None or not chart.table.places:
        return ""
    along = ("x", "y").index(chart.table.along)
    axes, points = figure.axes[0], np.empty((len(chart.table.places), 2))
    points[:, along], points[:, 1 - along] = chart.table.places, (axes.get_ylim, axes.get_xlim)[along]()[0]
    drawn = axes.transData.transform(points)[:, along]
    drawn = figure.bbox.height - drawn if along else drawn  # SVG counts from the top
    return " ".join([chart.table.along, *(f"{each:.1f}" for each in drawn)])


def figure_file(chart: Chart, form: str, width: float, dpi: int) -> bytes:
    """Draw a chart for a file, with its title; the same chart gives the same bytes.

    The form is ``png``, ``svg`` or ``pdf``, the width in inches; no text is smaller than 7 points, however narrow that
    is. Only PNG files have a resolution.
    """
    scale = min(1.0, max(width / _PAGE_WIDTH, LEAST_TEXT / _SMALLEST))
    metadata = {
        "png": {"Software": None},
        "svg": {**_NO_METADATA, "Title": chart.title, "Description": chart.description},
        "pdf": {**_NO_ORIGIN, "Title": chart.title, "Subject": chart.description},
    }[form]
    file = io.BytesIO()
    with _style(scale):
        title = textwrap.wrap(chart.title, characters(width, 1.18 * _TITLE * scale), max_lines=4, placeholder="…")
        _laid_out(chart, width, title).savefig(file, format=form, dpi=dpi, metadata=metadata)
    return _readable(file) if form == "svg" else file.getvalue()


def _readable(svg: io.BytesIO) -> bytes:
    """Return an SVG file without the characters that a name may have and XML has no place for."""
    return visible(svg.getvalue().decode()).encode()


def _laid_out(chart: Chart, width: float, title: Sequence[str] = ()) -> Figure:
    """Draw a chart on a figure of so many inches, below the lines of its title, and find a place for everything."""
    scale = matplotlib.rcParams["font.size"] / _sheet()["font.size"]
    head = len(title) * 1.25 * _TITLE * scale / 72 + (0.09 * scale if title else 0.0)
    height = width * _RATIO * chart.height + head
    figure = Figure(figsize=(width, height), dpi=72)
    FigureCanvasAgg(figure)  # measures texts for the layout
    room = 1 - head / height
    chart.draw(figure.subplots())
    for axes in figure.axes:
        if not axes.get_ylabel():
            axes.yaxis.set_label_coords(0.0, 0.5)  # else the room for no label is measured again and again
    _fit(figure, room)
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, room), transform=figure.transFigure)
    if title:
        figure.text(0.01, 1 - 0.05 / height, "\n".join(title), va="top", fontsize=_TITLE * scale, weight="bold")
    return figure


def _fit(figure: Figure, room: float) -> None:
    """Find a place for the axes, below what is above the `room`, a share of the height: texts and legends just fit.

    It is measured once, most of the time that a drawing takes; matplotlib's own layout does so twice, or at each draw.
    """
    if len(figure.axes) > 1:  # of a chart of the scenario's own
        ConstrainedLayoutEngine(rect=(0, 0, 1, room)).execute(figure)
        return
    (axes,), pad, (width, height) = figure.axes, _PAD * figure.dpi, figure.bbox.size
    inner, outer = axes.bbox, axes.get_tightbbox() or axes.bbox
    left, right = inner.x0 - outer.x0 + pad, outer.x1 - inner.x1 + pad
    bottom, top = inner.y0 - outer.y0 + pad, outer.y1 - inner.y1 + pad
    for legend in figure.legends:
        top += legend.get_window_extent().height + 2 * pad
    axes.set_position((left / width, bottom / height, 1 - (left + right) / width, room - (bottom + top) / height))


@cache
def _sheet() -> dict[str, Any]:
    """Read the one style of the figures, whatever the user's own settings are."""
    with as_file(files("fedsim.pages") / "fedsim.mplstyle") as sheet:
        settings = matplotlib.rc_params_from_file(sheet, use_default_template=False)
    every = dict(cast("Any", matplotlib.rcParamsDefault)) | dict(cast("Any", settings))
    del every["backend"]  # not a matter of style
    return every


@contextmanager
def _style(scale: float) -> Iterator[None]:
    """Set the style, its texts so many times their size."""
    style = _sheet() | {name: scale * _sheet()[name] for name in _TEXTS}
    with matplotlib.rc_context(cast("Any", style)), warnings.catch_warnings():
        # A name in a script that the font of a file lacks shows as boxes there; in the page it is text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _inline(svg: bytes, name: str) -> tuple[str, Markup]:
    """Fit matplotlib's SVG into a page: no prologue, metadata or title, unique ids, the page's colours and font."""
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _OUTSIDE or child.get("id") == _PAPER:
                parent.remove(child)
    used = {match[1] for element in root.iter() for value in element.attrib.values() if (match := _LINK.search(value))}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.tail = None
        element.text = element.text if element.tag == "text" else None
        element.attrib = {
            key.removeprefix(_XLINK): _fitted(key, value, name)
            for key, value in element.attrib.items()
            if key != "id" or value in used
        }
    body = "\n".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    return root.attrib["viewBox"], Markup(body)


def _fitted(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "style":
        value = value.replace("; font-family: 'DejaVu Sans'", "")
        # Drawn for a phone; a page that is wider shows the same drawing larger, and its texts not as much.
        value = _FONT.sub(r"font-size: calc(\1px * var(--chart-text, 1))", value)
        for color, variable in _COLORS.items():
            value = value.replace(f": {color}", f": var({variable})")
    elif key in {"d", "x", "y", "transform"}:
        value = _LONG.sub(lambda match: f"{float(match[0]):.2f}", value)  # a hundredth of a point is not seen
    return _LINK.sub(lambda match: match[0].replace("#", f"#{name}-"), value)
