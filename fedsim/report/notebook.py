"""A run as a notebook shows it: verdict, answer, key figures and who took part, in a fragment of HTML."""

import re
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from fedsim.report.charts.chart import Chart
from fedsim.report.document import render_part
from fedsim.report.finished_run import read_run
from fedsim.report.render import picture
from fedsim.report.run_report import run_document

_COLORS = re.compile(r"(--[a-z0-9-]+: #[0-9a-f]{6};)")


def notebook_html(directory: Path) -> str:
    """Return the fragment for a run directory; its style reaches nothing outside it.

    Raises
    ------
    RunError
        The directory lacks a file or has an unreadable one; the message names it.
    """
    document = run_document(read_run(directory))
    shown = next((chart for chart in document.charts["bias"] if isinstance(chart, Chart)), None)
    light, dark = _palettes()
    return render_part(
        "notebook.html.jinja",
        document=document,
        light=light,
        dark=dark,
        chart=shown,
        picture=None if shown is None else picture(shown),
    )


def _palettes() -> tuple[Markup, Markup]:
    """Take the colours of the page's style, for light and for dark."""
    style = (files("fedsim.report") / "templates" / "report.css").read_text(encoding="utf-8")
    light, _, rest = style.partition("@media screen")
    dark = rest.partition("\n}")[0]
    return Markup(" ".join(_COLORS.findall(light))), Markup(" ".join(_COLORS.findall(dark)))
