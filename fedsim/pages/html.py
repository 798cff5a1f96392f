"""An answer as one HTML page, or the part of it that a notebook shows: self-contained, escaped, with a policy."""

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.common.printable import visible
from fedsim.pages.answer import TRUST, Answer, Check, Grade, Section, Sentence
from fedsim.pages.charts import Absent, Chart
from fedsim.pages.render import picture
from fedsim.pages.tables import Table

MOST_CHECKS = 8
"""Checks of the strip: the alarms first."""
_OWN = {"index", "playground"}  # kinds of pages that have a template of their own
_WIDE = 4  # columns of a table that takes a row of the grid
_SHORT = 4  # rows of tables that share a card
_DIGITS = 16  # of the hashes that tell a page that is out of date


@cache
def page_version() -> str:
    """Return a hash of the templates, the style and the scripts of pages, but for the playground's own."""
    digest = sha256()
    for file in sorted((files("fedsim.pages") / "templates").iterdir(), key=lambda file: file.name):
        if file.is_file() and not file.name.startswith("playground."):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class Chip:
    """A check in the strip: all that is said under one name, and the gravest state of it."""

    name: str
    state: Grade
    checks: Sequence[Check]


_GRAVE = (Grade.BAD, Grade.CAUTION, Grade.OK)


def strip(answer: Answer) -> list[Chip]:
    """Return the checks of the strip in their order, by name; of more than eight the gravest."""
    named = dict[str, list[Check]]()
    for each in answer.checks:
        if each.state is not Grade.NONE:
            named.setdefault(each.name, []).append(each)
    chips = [Chip(name, min((each.state for each in some), key=_GRAVE.index), some) for name, some in named.items()]
    kept = sorted(chips, key=lambda chip: _GRAVE.index(chip.state))[:MOST_CHECKS]
    return [chip for chip in chips if chip in kept]


def _cards(section: Section, first: Chart | None) -> dict[str, object]:
    """Return what the template shows of a section; short tables that follow each other share a card."""
    charts = [chart for chart in section.charts if isinstance(chart, Chart) and chart is not first]
    shown = list[list[Table]]()
    for table in section.tables:
        if table is not None and table.rows:
            short = len(table.rows) <= _SHORT and len(table.header) <= _WIDE
            if short and shown and sum(len(each.rows) for each in shown[-1]) <= _SHORT:
                shown[-1].append(table)
            else:
                shown.append([table])
    return {**vars(section), "figures": [(chart, picture(chart)) for chart in charts], "tables": shown}


def render(answer: Answer, **context: object) -> str:
    """Fill the template; everything that a person named is text in it, never markup. `context` is of other pages."""
    sections = [_cards(section, answer.first_picture) for section in answer.sections]
    page = _render_part(
        f"{answer.kind if answer.kind in _OWN else 'page'}.html.jinja",
        **_first_screen(answer),
        page_version=page_version(),
        style=Markup(_text("report.css")),
        script=Markup(_text("page.js")),
        sections=[each for each in sections if each["figures"] or each["tables"] or each["text"]],
        absent=[chart for section in answer.sections for chart in section.charts if isinstance(chart, Absent)],
        origin=next(iter(answer.origins.values())) if len(answer.origins) == 1 else None,
        wide=_WIDE,
        **context,
    )
    return restricted(page)


def _first_screen(answer: Answer) -> dict[str, object]:
    """Return what a page and a notebook show first: checks, sentences by question, and the picture."""
    by_question, first = dict[str, list[Sentence]](), answer.first_picture
    shown_once = {fact for tile in answer.tiles for fact in tile.facts}
    shown_once |= {fact for section in answer.sections for table in section.tables if table for fact in table.facts}
    reasons = [Sentence(each.text, TRUST) for each in answer.alarms if each.text != answer.headline]
    for each in (*answer.sentences, *reasons, *answer.remedies):
        if not each.facts or each.command or not shown_once.issuperset(each.facts):
            by_question.setdefault(each.about, []).append(each)
    shown = None if first is None else (first, picture(first))
    return {"answer": answer, "chips": strip(answer), "said": by_question, "picture": shown}


def _text(name: str) -> str:
    return (files("fedsim.pages") / "templates" / name).read_text(encoding="utf-8")


_COLORS = re.compile(r"(--[a-z0-9-]+: #[0-9a-f]{6};)")


def as_fragment(answer: Answer) -> str:
    """Return what a notebook shows of an answer; its style reaches nothing outside it."""
    light, _, rest = _text("report.css").partition("@media screen")
    colors = [Markup(" ".join(_COLORS.findall(each))) for each in (light, rest.partition("\n}")[0])]
    return _render_part("notebook.html.jinja", **_first_screen(answer), light=colors[0], dark=colors[1])


def _render_part(template: str, **context: object) -> str:
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
    ``<script type="application/json">`` are no script. Nothing may be requested; a page with figures may hold pictures,
    and make them where a reader takes a figure as a file.
    """
    names: dict[str, int] = {}
    page = _STYLED.sub(lambda match: f'{match[1]} data-s="{names.setdefault(match[2], len(names))}"{match[3]}', page)
    rules = "".join(f'[data-s="{name}"] {{ {html.unescape(style)} }}\n' for style, name in names.items())
    page = page.replace("</style>", f"{rules}</style>", 1)
    directives = [
        "default-src 'none'",
        *_sources("style-src", _STYLE.findall(page)),
        *_sources("script-src", _SCRIPT.findall(page)),
        *(["img-src data:"] if '"data:image/' in page or "<figure" in page else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    policy = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(directives)}">'
    return page.replace(_CHARSET, f"{_CHARSET}\n{policy}", 1)


def _sources(directive: str, contents: Iterable[str]) -> list[str]:
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in contents]
    return [f"{directive} {' '.join(dict.fromkeys(hashes))}"] if hashes else []
