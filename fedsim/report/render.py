"""Charts turned into pictures: SVG with the page's colours and fonts, SVG and PNG files of their own."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from xml.etree import ElementTree

import matplotlib.style
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from fedsim.common.printable import visible
from fedsim.report.charts.chart import Chart
from fedsim.report.charts.marks import INK, MUTED, PAPER, RULE, SERIES

_COLORS = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"} | {
    color: f"--series-{index}" for index, color in enumerate(SERIES, start=1)
}
HEADROOM = 0.27
"""Inches at the top of a figure that are kept for its title."""

LONGEST_TITLE = 54
"""Characters of a title that fit above a figure."""

_TITLE = "figure-title"
_OF_FILES = {_TITLE, "patch_1"}  # the second is the paper, which the page has of its own
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_SVG = "{http://www.w3.org/2000/svg}"
_OUTSIDE = {f"{_SVG}metadata", f"{_SVG}style", f"{_SVG}title"}
_XLINK = "{http://www.w3.org/1999/xlink}"
_LINK = re.compile(r"(?:^|url\()#([^)]+)")


@dataclass(frozen=True)
class Picture:
    """A drawn chart.

    Parameters
    ----------
    view_box
        The coordinates of the inline SVG.
    inline
        What goes between `<svg>` and `</svg>` in the page: markup, with every text in it escaped.
    svg, png
        The content of the files.
    """

    view_box: str
    inline: Markup
    svg: bytes
    png: bytes


def picture(chart: Chart) -> Picture:
    """Draw a chart; the same chart gives the same bytes."""
    with _style():
        figure = Figure()
        FigureCanvasAgg(figure)  # one canvas for the layout and the PNG: texts are measured once for both
        figure.set_figheight(figure.get_figheight() * chart.height + HEADROOM)
        room = HEADROOM / figure.get_figheight()
        chart.draw(figure.subplots())
        for axes in figure.axes:
            if not axes.get_ylabel():
                axes.yaxis.set_label_coords(0.0, 0.5)  # else the room for no label is measured again and again
        # Once: a figure that has an engine is laid out and drawn again for each file, most of the time it takes.
        ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - room)).execute(figure)
        for legend in figure.legends:
            legend.set_bbox_to_anchor((0, 0, 1, 1 - room), transform=figure.transFigure)
        title = chart.title if len(chart.title) <= LONGEST_TITLE else f"{chart.title[: LONGEST_TITLE - 1].rstrip()}…"
        figure.text(0.01, 1 - 0.2 * room, title, gid=_TITLE, va="top", fontsize=9.2, weight="bold")
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
        figure.savefig(
            svg, format="svg", metadata={**_NO_METADATA, "Title": chart.title, "Description": chart.description}
        )
    drawing = visible(svg.getvalue().decode()).encode()  # XML has no place for some characters that a name may have
    view_box, inline = _inline(drawing, chart.name)
    return Picture(view_box, inline, drawing, png.getvalue())


@contextmanager
def _style() -> Iterator[None]:
    """Set the one style of the figures, whatever the user's own settings are."""
    with (
        as_file(files("fedsim.report") / "fedsim.mplstyle") as sheet,
        matplotlib.style.context(["default", sheet]),
        warnings.catch_warnings(),
    ):
        # A name in a script that the PNG's font lacks shows as boxes there; in the page it is text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _inline(svg: bytes, name: str) -> tuple[str, Markup]:
    """Fit matplotlib's SVG into a page: no prologue, metadata or title, unique ids, the page's colours and font."""
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _OUTSIDE or child.get("id") in _OF_FILES:
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
    # The page has a heading for the title, so what is kept free for it is cut off.
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    top = HEADROOM * 72
    return f"{x:g} {y + top:g} {width:g} {height - top:g}", Markup(body)


def _fitted(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "style":
        value = value.replace("; font-family: 'DejaVu Sans'", "")
        for color, variable in _COLORS.items():
            value = value.replace(f": {color}", f": var({variable})")
    return _LINK.sub(lambda match: match[0].replace("#", f"#{name}-"), value)
