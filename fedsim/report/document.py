"""A report before it is written: its charts, what else the template shows, and its summary in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.common.printable import visible
from fedsim.report.answer import Sentence, Tile
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.policy import restricted
from fedsim.report.render import Picture, picture
from fedsim.report.stamp import page_version
from fedsim.report.tables import Table
from fedsim.report.verdict import Verdict


@dataclass(frozen=True)
class Document:
    """The report of a run, of a sweep, or of a comparison.

    Parameters
    ----------
    kind
        Which of them; the page's template is named after it.
    name
        What it is about, as a person wrote it: text, never markup.
    finding
        What was found, in one sentence: the title of the page, which is the name where there is none.
    question
        What it was to answer, as a person wrote it; empty where nobody did.
    description, status
        What a person wrote of it, and how far it got; empty where there is nothing to say.
    verdict, answer, tiles
        The first screen: what became of expectations (None where there are none), the sentences, the key figures.
    charts
        The charts by the section that shows them.
    names
        Every chart that a report of this kind can have.
    context
        What else the template shows.
    tables
        Those of the summary; None where there is nothing to show.
    command
        Runs it again.
    version
        That of the scenario it is about; empty where there is not one.
    pictures
        Charts that are drawn already, by name.
    failures
        What a person should be told, beside the page.
    """

    kind: str
    name: str
    finding: str = ""
    question: str = ""
    description: str = ""
    status: object = ""
    verdict: Verdict | None = None
    answer: Sequence[Sentence] = ()
    tiles: Sequence[Tile] = ()
    charts: Mapping[str, tuple[Chart | Absent, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    context: Mapping[str, object] = field(default_factory=dict)
    tables: Sequence[Table | None] = ()
    command: str | None = None
    version: str = ""
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


_SHOWN = ("name", "finding", "question", "description", "status", "verdict", "answer", "tiles", "version")


def charts_of(document: Document) -> list[Chart]:
    """Return the charts that have data, in the order of the page."""
    return [chart for section in document.charts.values() for chart in section if isinstance(chart, Chart)]


def drawn(document: Document) -> Mapping[str, Picture]:
    """Draw every chart that has data, for the page; by name."""
    return {chart.name: document.pictures.get(chart.name) or picture(chart) for chart in charts_of(document)}


def render(document: Document, pictures: Mapping[str, Picture]) -> str:
    """Fill the template; everything that a person named is text in it, never markup."""
    styles = files("fedsim.report") / "templates" / "report.css"
    return restricted(
        _environment()
        .get_template(f"{document.kind}.html.jinja")
        .render(
            **{part: getattr(document, part) for part in _SHOWN},
            page_version=page_version(),
            style=Markup(styles.read_text(encoding="utf-8")),
            figures={
                section: [(chart, pictures[chart.name]) for chart in charts if chart.name in pictures]
                for section, charts in document.charts.items()
            },
            absent={
                section: [chart for chart in charts if isinstance(chart, Absent)]
                for section, charts in document.charts.items()
            },
            **document.context,
        )
    )


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
