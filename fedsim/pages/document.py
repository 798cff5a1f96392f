"""A report before it is written: its charts and what else it shows, rendered as a page or a summary in Markdown."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.common.markup import block, code, escape, table
from fedsim.common.printable import printable, visible
from fedsim.pages.charts import Absent, Chart
from fedsim.pages.expectations import Verdict
from fedsim.pages.finding import WHAT, Finding, Tile, as_plain, lines
from fedsim.pages.provenance import ReportProvenance
from fedsim.pages.render import Picture, picture
from fedsim.pages.tables import Table


@dataclass(frozen=True)
class Section:
    """A section of a page below its first screen; one that has nothing to show is left out."""

    name: str  # its anchor
    title: str
    charts: Sequence[Chart | Absent | None] = ()
    tables: Sequence[Table | None] = ()
    text: Sequence[Finding] = ()
    folded: bool = False  # opened by those who want it


@dataclass(frozen=True)
class ReportDocument:
    """The report of a run, of a sweep, or of a comparison; or another page, which has a template of its own."""

    kind: str  # which of them
    name: str  # what it is about, as a person wrote it: text, never markup
    finding: str = ""  # what was found, in one sentence: the title of the page, which is the name where there is none
    question: str = ""  # what it was to answer, as the scenario says; empty where it does not
    setup: str = ""  # what was simulated, in a few words
    # What a person wrote of it, and how far it got; empty where there is nothing to say
    description: str = ""
    status: object = ""
    # The first screen: what became of expectations (None where there are none), the sentences, the key figures
    verdict: Verdict | None = None
    answer: Sequence[Finding] = ()
    tiles: Sequence[Tile] = ()
    facts: Sequence[Finding] = ()  # what was found of each part, for JSON

    picture: str = ""  # the chart of the first screen; where there is none of this name, the first that has data
    sections: Sequence[Section] = ()
    names: tuple[str, ...] = ()  # every chart that a report of this kind can have
    context: Mapping[str, object] = field(default_factory=dict)  # what the template of another page shows
    tables: Sequence[Table | None] = ()  # those of the summary; None where there is nothing to show
    origins: Mapping[str, ReportProvenance] = field(default_factory=dict)  # by the letter of the run; one has none
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # charts that are drawn already, by name
    failures: tuple[str, ...] = ()  # what to report besides the page

    @property
    def charts(self) -> list[Chart]:
        """The charts that have data, in the order of the page."""
        return [chart for section in self.sections for chart in section.charts if isinstance(chart, Chart)]

    @property
    def first_picture(self) -> Chart | None:
        """The chart of the first screen; None where no chart has data."""
        return next((chart for chart in self.charts if chart.name == self.picture), next(iter(self.charts), None))

    @property
    def origin(self) -> ReportProvenance | None:
        """Where the figures come from, if that is one run or sweep."""
        return next(iter(self.origins.values())) if len(self.origins) == 1 else None


MOST_TILES = 5  # key figures shown
_OWN = {"index", "playground"}  # kinds of pages that have a template of their own
_DIGITS = 16  # of the hashes that tell a page that is out of date


@cache
def page_version() -> str:
    """Return a hash of the templates, the style and the scripts that pages are made with."""
    digest = sha256()
    for file in sorted((files("fedsim.pages") / "templates").iterdir(), key=lambda file: file.name):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]


def pictures_of(document: ReportDocument) -> Mapping[str, Picture]:
    """Draw every chart that has data, for the page; by name."""
    return {chart.name: document.pictures.get(chart.name) or picture(chart) for chart in document.charts}


def render(document: ReportDocument, pictures: Mapping[str, Picture]) -> str:
    """Fill the template; everything that a person named is text in it, never markup."""
    styles, first = files("fedsim.pages") / "templates" / "report.css", document.first_picture
    sections = []
    for section in document.sections:
        charts = [chart for chart in section.charts if isinstance(chart, Chart) and chart is not first]
        figures = [(chart, pictures[chart.name]) for chart in charts]
        tables = [table for table in section.tables if table is not None and table.rows]
        if figures or tables or section.text:
            sections.append({**vars(section), "figures": figures, "tables": tables})
    own = document.kind in _OWN
    shown = [each for each in lines(document.answer) if each.about != WHAT or not document.finding]
    page = render_part(
        f"{document.kind if own else 'page'}.html.jinja",
        document=document,
        page_version=page_version(),
        style=Markup(styles.read_text(encoding="utf-8")),
        picture=None if first is None or own else (first, pictures[first.name]),
        tiles=document.tiles[:MOST_TILES],
        lines=shown,
        further=[each for each in document.answer if each not in shown or each.line != each.text],
        sections=sections,
        absent=[chart for section in document.sections for chart in section.charts if isinstance(chart, Absent)],
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


def _coded(text: str) -> Markup:
    """Set what stands between backticks as code."""
    return Markup("").join(
        Markup('<code class="key">{}</code>').format(visible(part)) if index % 2 else visible(part)
        for index, part in enumerate(re.split(r"`([^`]+)`", text))
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fedsim.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    made.filters["coded"] = _coded
    return made


_CHARSET = '<meta charset="utf-8">'
_STYLED = re.compile(r'(<[a-zA-Z][^<>]*?) style="([^"<>{}]*)"([^<>]*>)')
_STYLE, _SCRIPT = (re.compile(rf"<{tag}>(.*?)</{tag}>", re.DOTALL) for tag in ("style", "script"))


def restricted(page: str) -> str:
    """Put a Content-Security-Policy into a page that allows its own styles and scripts, by their hashes, alone.

    A policy of hashes knows no `style` attributes, which figures are full of: they become names. Data in a
    ``<script type="application/json">`` are no script. Nothing may be requested; pictures may be in the page itself.
    """
    names: dict[str, int] = {}
    page = _STYLED.sub(lambda found: f'{found[1]} data-s="{names.setdefault(found[2], len(names))}"{found[3]}', page)
    rules = "".join(f'[data-s="{name}"] {{ {html.unescape(style)} }}\n' for style, name in names.items())
    page = page.replace("</style>", f"{rules}</style>", 1)
    directives = [
        "default-src 'none'",
        *_sources("style-src", _STYLE.findall(page)),
        *_sources("script-src", _SCRIPT.findall(page)),
        *(["img-src data:"] if '"data:image/' in page else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(directives)}">'
    return page.replace(_CHARSET, f"{_CHARSET}\n{policy}", 1)


def _sources(directive: str, contents: Iterable[str]) -> list[str]:
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in contents]
    return [f"{directive} {' '.join(dict.fromkeys(hashes))}"] if hashes else []


_ROWS = 20  # rows of a table shown at most
_MARKS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "unjudged": "❔"}


def _plain_table(shown: Table) -> str:
    """Write a table of the report, at most `ROWS` rows of it."""
    text = table(list(map(escape, shown.header)), [list(map(escape, row)) for row in shown.rows[:_ROWS]])
    left = len(shown.rows) - _ROWS
    return f"**{escape(shown.caption)}**\n\n{text}" + (f"\n\n{left} more rows in the report." if left > 0 else "")


def json_summary(document: ReportDocument) -> str:
    """Return the answer, and every finding with its value, interval, test and certainty, as a line of JSON."""
    verdict = document.verdict
    said = {
        "kind": document.kind,
        "name": document.name,
        "question": document.question,
        "setup": document.setup,
        "answer": document.finding,
        "expectations": None
        if verdict is None
        else {"status": verdict.status, "text": verdict.headline}
        | {"missed": [{**vars(each), "words": each.words} for each in verdict.attention]},
        "tiles": [vars(tile) for tile in document.tiles],
        "findings": [as_plain(each) for each in (*document.answer, *document.facts)],
    }
    return json.dumps(said, ensure_ascii=False, allow_nan=False)


def markdown_summary(document: ReportDocument) -> str:
    """Put a summary together: verdict, answer, key figures, tables, and the command that reruns it."""
    parts = [f"### {escape(document.name)} ({document.kind})"]
    if document.question:
        parts.append(f"*{escape(document.question)}*")
    parts += [f"**{escape(document.finding)}**"] if document.finding else []
    parts += [escape(document.setup)] if document.setup else []
    if (verdict := document.verdict) is not None:
        parts += [f"{_MARKS[verdict.status]} **{escape(verdict.headline)}**", _conditions(verdict)]
    shown = list(lines(document.answer))
    parts.append(_told([replace(each, text=each.line) for each in shown]))
    if tiles := document.tiles[:MOST_TILES]:
        rows = [(escape(tile.label), f"**{escape(tile.value)}**", escape(tile.detail)) for tile in tiles]
        parts.append(table(("figure", "value", ""), rows))
    parts += [_plain_table(each) for each in document.tables if each is not None]
    folded = {
        "In more detail": _told([each for each in document.answer if each not in shown or each.line != each.text])
    }
    if (origin := document.origin) is not None and origin.command:
        folded["Run it again"] = block(printable(origin.command, None))
    parts += [f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" for title, text in folded.items() if text]
    return "\n\n".join(part for part in parts if part) + "\n"


def _told(findings: Sequence[Finding]) -> str:
    """List findings, those about one question in one item."""
    items = []
    for about, same in groupby(findings, lambda each: each.about):
        said = ((f"**{escape(each.text)}**" if each.warns else escape(each.text), each.command) for each in same)
        text = " ".join(f"{sentence} {code(command)}" if command else sentence for sentence, command in said)
        items.append(f"- *{escape(about)}:* {text}" if about else f"- {text}")
    return "\n".join(items)


def _conditions(verdict: Verdict) -> str:
    rows = [
        (
            f"{_MARKS[condition.status]} {condition.outcome}",
            f"{escape(condition.words)} ({code(condition.check)})",
            escape(condition.observed),
            code(condition.place) if condition.place else "",
            "; ".join(escape(text) for text in (condition.why, condition.note) if text),
        )
        for condition in (*verdict.attention, *verdict.met)
    ]
    text = table(("", "expectation", "observed", "place", "why"), rows)
    return f"{text}\n\n{escape(verdict.omitted)}" if verdict.omitted else text
