"""A report before it is written: its charts, what else the template shows, what its summary in Markdown has."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.common.printable import visible
from fedsim.report.answer import Sentence, Tile
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.finished_run import Json
from fedsim.report.policy import restricted
from fedsim.report.render import Picture, picture
from fedsim.report.tables import Table
from fedsim.report.verdict import Verdict


@dataclass(frozen=True)
class ReportDocument:
    """The report of a run, of a sweep, or of a comparison."""

    kind: str  # which of them; the page's template is named after it
    name: str  # what it is about, as a person wrote it: text, never markup
    finding: str = ""  # what was found, in one sentence: the title of the page, which is the name where there is none
    question: str = ""  # what it was to answer, as the scenario says; empty where it does not
    # What a person wrote of it, and how far it got; empty where there is nothing to say
    description: str = ""
    status: object = ""
    # The first screen: what became of expectations (None where there are none), the sentences, the key figures
    verdict: Verdict | None = None
    answer: Sequence[Sentence] = ()
    tiles: Sequence[Tile] = ()

    charts: Mapping[str, tuple[Chart | Absent, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # every chart that a report of this kind can have
    context: Mapping[str, object] = field(default_factory=dict)  # what else the template shows
    tables: Sequence[Table | None] = ()  # those of the summary; None where there is nothing to show
    command: str | None = None  # runs it again
    version: str = ""  # that of the scenario it is about; empty where there is not one
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # charts that are drawn already, by name
    failures: tuple[str, ...] = ()  # what to report besides the page


_SHOWN = ("name", "finding", "question", "description", "status", "verdict", "answer", "tiles", "version")


_DIGITS = 16  # of the hashes that tell a page that is out of date


@cache
def page_version() -> str:
    """Return a hash of the templates, the style and the scripts that pages are made with."""
    digest = hashlib.sha256()
    for file in sorted((files("fedsim.report") / "templates").iterdir(), key=lambda file: file.name):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]


def scenario_version(resolved: Json) -> str:
    """Return a hash of a resolved scenario, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def charts_of(document: ReportDocument) -> list[Chart]:
    """Return the charts that have data, in the order of the page."""
    return [chart for section in document.charts.values() for chart in section if isinstance(chart, Chart)]


def pictures_of(document: ReportDocument) -> Mapping[str, Picture]:
    """Draw every chart that has data, for the page; by name."""
    return {chart.name: document.pictures.get(chart.name) or picture(chart) for chart in charts_of(document)}


def render(document: ReportDocument, pictures: Mapping[str, Picture]) -> str:
    """Fill the template; everything that a person named is text in it, never markup."""
    styles = files("fedsim.report") / "templates" / "report.css"
    figures, absent = {}, {}
    for section, charts in document.charts.items():
        figures[section] = [(chart, pictures[chart.name]) for chart in charts if chart.name in pictures]
        absent[section] = [chart for chart in charts if isinstance(chart, Absent)]
    page = render_part(
        f"{document.kind}.html.jinja",
        **{part: getattr(document, part) for part in _SHOWN},
        page_version=page_version(),
        style=Markup(styles.read_text(encoding="utf-8")),
        figures=figures,
        absent=absent,
        **document.context,
    )
    return restricted(page)


def render_part(template: str, **context: object) -> str:
    """Fill a template that is no whole page."""
    return _environment().get_template(template).render(**context)


def _shown(value: object) -> object:
    """Make what a template shows printable; markup of our own is taken as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return visible(value)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("fedsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
