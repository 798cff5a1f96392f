"""A report before it is written: its charts, what else the template shows, and its summary in Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.report.charts.chart import Absent, Chart
from fedsim.report.render import Picture, picture


@dataclass(frozen=True)
class Document:
    """The report of a run, of a sweep, or of a comparison.

    Parameters
    ----------
    name
        What it is about, as a person wrote it: text, never markup.
    template
        The page's template.
    context
        What the template shows beside the charts.
    charts
        The charts by the section that shows them.
    names
        Every chart that a report of this kind can have.
    summary
        The summary in Markdown.
    pictures
        Charts that are drawn already, by name.
    failures
        What a person should be told, beside the page.
    """

    name: str
    template: str
    context: Mapping[str, object]
    charts: Mapping[str, tuple[Chart | Absent, ...]]
    names: tuple[str, ...]
    summary: str
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A chart with its picture, as the template shows it."""

    chart: Chart
    picture: Picture


def drawn(document: Document) -> Mapping[str, Figure]:
    """Draw every chart that has data; by name."""
    charts = [chart for section in document.charts.values() for chart in section if isinstance(chart, Chart)]
    return {chart.name: Figure(chart, document.pictures.get(chart.name) or picture(chart)) for chart in charts}


def render(document: Document, figures: Mapping[str, Figure]) -> str:
    """Fill the template; everything that a person named is text in it, never markup."""
    styles = files("fedsim.report") / "templates" / "report.css"
    return (
        _environment()
        .get_template(document.template)
        .render(
            name=document.name,
            style=Markup(styles.read_text(encoding="utf-8")),
            figures={
                section: [figures[chart.name] for chart in charts if chart.name in figures]
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
