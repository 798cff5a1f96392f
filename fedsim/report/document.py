"""A report before it is written: its charts, what else the template shows, and its summary in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.report.answer import Sentence, Tile
from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.render import Picture, picture
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
    title
        The finding in one line, above everything; the name, where it is empty.
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
    pictures
        Charts that are drawn already, by name.
    failures
        What a person should be told, beside the page.
    """

    kind: str
    name: str
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
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    title: str = ""


_SHOWN = ("name", "title", "description", "status", "verdict", "answer", "tiles")


def drawn(document: Document) -> Mapping[str, Picture]:
    """Draw every chart that has data; by name."""
    charts = [chart for section in document.charts.values() for chart in section if isinstance(chart, Chart)]
    return {chart.name: document.pictures.get(chart.name) or picture(chart) for chart in charts}


def render(document: Document, pictures: Mapping[str, Picture]) -> str:
    """Fill the template; everything that a person named is text in it, never markup."""
    styles = files("fedsim.report") / "templates" / "report.css"
    return (
        _environment()
        .get_template(f"{document.kind}.html.jinja")
        .render(
            **{part: getattr(document, part) for part in _SHOWN},
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


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("fedsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
