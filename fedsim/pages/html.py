"""An answer as one HTML page, or the part of it that a notebook shows: self-contained, escaped, with a policy."""

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedsim.common.formatting import count
from fedsim.common.printable import visible
from fedsim.pages.answer import QUESTIONS, TRUST, Answer, Check, Grade, Section, Sentence
from fedsim.pages.charts import Absent, Chart
from fedsim.pages.render import picture
from fedsim.pages.tables import Table
from fedsim.run.check import CHECKED

MOST_CHIPS = 8
"""Chips at most: one of the checks that hold, and the gravest of the others."""
MOST_CARDS = 8
"""Charts and tables that are unfolded at most, the picture of the first screen with them."""
_OWN = {"index", "playground"}  # kinds of pages that have a template of their own
_WIDE = 4  # columns of a table that takes a row of the grid
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
    """Checks in a few words, which open to their sentences, and the gravest state of them."""

    name: str  # of the check; "" of those that hold
    words: str
    state: Grade
    checks: Sequence[Check]


_GRAVE = (Grade.BAD, Grade.CAUTION, Grade.NONE, Grade.OK)


def strip(answer: Answer) -> list[Chip]:
    """Return a chip for each check that does not hold, the gravest first, and one that counts those that do."""
    named = dict[str, list[Check]]()
    for each in answer.checks:
        if each.state is not Grade.NONE or each.name == "expectations":
            named.setdefault(each.since or each.name, []).append(each)
    worst = {name: min((each.state for each in some), key=_GRAVE.index) for name, some in named.items()}
    held = [each for name, some in named.items() if worst[name] is Grade.OK for each in some]
    others = [
        Chip(name, CHECKED.get(name, name), state, named[name]) for name, state in worst.items() if state != Grade.OK
    ]
    others.sort(key=lambda chip: _GRAVE.index(chip.state))
    kept, every = len(named) - len(others), count(len(named), "check")
    words = f"All {every} hold" if not others else f"{count(kept)} of {every} hold{'s' * (kept == 1)}"
    words = f"{every} holds" if len(named) == kept == 1 else words
    return [*others[: MOST_CHIPS - 1], *([Chip("", words, Grade.OK, held)] if held else [])]


def _sections(answer: Answer) -> tuple[list[Mapping[str, object]], list[Mapping[str, object]]]:
    """Return what is shown of sections, wide tables after all else, and what is folded away: aside, or too much."""
    placed, room, named = list[tuple[int, Section, Chart | Table]](), MOST_CARDS - 1, set[str]()
    tables = [each for section in answer.sections for each in section.tables if each is not None and each.rows]
    bare = not answer.charts and all(each.aside for each in tables)  # of interest to few, but all that there is
    for section in answer.sections:
        charts = [each for each in section.charts if isinstance(each, Chart) and each is not answer.first_picture]
        cards: list[Chart | Table] = [*charts, *(each for each in section.tables if each is not None and each.rows)]
        for card in cards:
            wide = isinstance(card, Table) and (len(card.header) > _WIDE or card.words > 2)
            place = 2 if ((section.folded or card.aside) and not bare) or not room else int(wide)
            room -= place < 2
            placed.append((place, section, card))
    parts = list[list[Mapping[str, object]]]()
    for at in range(3):
        parts.append([])
        for section in answer.sections:
            these = [card for place, of, card in placed if place == at and of is section]
            if these:
                name = "" if section.name in named else section.name
                named.add(name)
                shown = [(each, picture(each)) if isinstance(each, Chart) else each for each in these]
                titles = [each.title if isinstance(each, Chart) else each.caption for each in these]
                parts[at].append({**vars(section), "name": name, "titles": titles, "cards": shown})
    return [*parts[0], *parts[1]], parts[2]


def render(answer: Answer, **context: object) -> str:
    """Fill the template; everything that a person named is text in it, never markup. `context` is of other pages."""
    sections, more = _sections(answer)
    page = _render_part(
        f"{answer.kind if answer.kind in _OWN else 'page'}.html.jinja",
        **_first_screen(answer),
        page_version=page_version(),
        style=Markup(_text("report.css")),
        script=Markup(_text("page.js")),
        sections=sections,
        more=more,
        absent=[chart for section in answer.sections for chart in section.charts if isinstance(chart, Absent)],
        origin=next(iter(answer.origins.values())) if len(answer.origins) == 1 else None,
        wide=_WIDE,
        **context,
    )
    return restricted(page)


def _first_screen(answer: Answer) -> dict[str, object]:
    """Return what a page and a notebook show first: checks, sentences by question, and the picture."""
    first, reasons = answer.first_picture, (each.text for each in answer.alarms if each.text != answer.headline)
    every = [*answer.sentences, *answer.trust, *(Sentence(each, TRUST) for each in reasons), *answer.remedies]
    by_question = {
        about: some for about in ("", *QUESTIONS) if (some := [each for each in every if each.about == about])
    }
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


_MARKED = re.compile(r"`([^`]+)`|(?<=“)([^”]+)(?=”)")


def _coded(text: str) -> Markup:
    """Set what stands between backticks as code, and keep the direction of each name in quotes to itself."""
    parts, at = list[Markup | str](), 0
    for match in _MARKED.finditer(text):
        form = '<code class="key">{}</code>' if match[1] else "<bdi>{}</bdi>"
        parts += [visible(text[at : match.start()]), Markup(form).format(visible(match[1] or match[2]))]
        at = match.end()
    return Markup("").join([*parts, visible(text[at:])])


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
