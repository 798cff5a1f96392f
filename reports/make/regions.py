"""Writes the measured numbers of the documentation, so that none of them can go stale.

A region of a page stands between ``<!-- measured: NAME -->`` and ``<!-- end -->``. Its text is a
template of `studies.md.jinja`, rows of `paper.md.jinja`, or a table that is made here. A test compares the pages with
what would be written.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from jinja2 import Environment, StrictUndefined, select_autoescape

from reports.make import placeholders, tournament, which_separation
from reports.make.kept import ROOT, Kept, load
from reports.make.words import NAMES, table, wrap

PAGES = (
    *("README.md", "docs/paper-results.md", "docs/learning.md", "docs/studies.md", "docs/validation.md"),
    *("docs/scaling.md", "reports/README.md"),
)
REGION = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = ("the paper says", "measured", "from", "over", "holds")
TEMPLATES = {
    name: body
    for file in ("paper.md.jinja", "studies.md.jinja")
    for name, body in re.findall(
        r"(?s)<!-- measured: ([\w-]+) -->\n(.*?)<!-- end -->", Path(__file__).with_name(file).read_text("utf-8")
    )
}
TEMPLATES["reports"] = Path(__file__).with_name("reports.md.jinja").read_text("utf-8")


def rendered(name: str, kept: Kept, **more: object) -> str:
    """Return a template with its numbers."""
    environment = Environment(
        autoescape=select_autoescape(default_for_string=False),  # Markdown
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["wrap"] = wrap
    numbers = placeholders.Placeholders(kept)
    known = {each: getattr(numbers, each) for each in dir(numbers) if not each.startswith("_")}
    known |= {**vars(placeholders), "NAMES": NAMES, "tournament": tournament, "which_separation": which_separation}
    return environment.from_string(TEMPLATES[name]).render(known | more)


def claims(kept: Kept, *names: str) -> list[list[str]]:
    """Return the paper's statements: what it says, the number, its source, over what, and the verdict."""
    return [line[2:-2].split(" | ") for name in names for line in rendered(name, kept).splitlines()]


def verdicts(kept: Kept) -> str:
    """Return the table of what came of the paper's figures, with links from the folder of the reports."""
    text = table(HEAD, claims(kept, "experiments", "foreseen"))
    text = re.sub(r"\(\.\./scenarios/paper/([\w-]+)\.fedsim\.yaml\)", r"(\1.html)", text)
    return text.replace("(checks/", "(../docs/checks/").replace("](#", "](../docs/paper-results.md#")


def validation(kept: Kept) -> str:
    """Return the table of published and simulated figures, and how many rows agree."""
    text = rendered("validation", kept)
    agreed, missed = text.count(" | yes | "), text.count(" | **no**")
    return f"{text}{agreed} of {agreed + missed} agree.\n\n"


REGIONS: Mapping[str, Callable[[Kept], str]] = {
    **{
        name: partial(rendered, name)
        for name in TEMPLATES
        if name not in {"theorems", "experiments", "foreseen", "open", "reports"}
    },
    "theory": lambda kept: table(HEAD, claims(kept, "theory")),
    "learning": lambda kept: table(HEAD, claims(kept, "theorems", "experiments", "open")),
    "verdicts": verdicts,
    "validation": validation,
    "tournament": lambda _: table(tournament.STANDINGS, tournament.ranking(tournament.measured("bias"))),
}


def with_regions(page: str, kept: Kept) -> str:
    """Return a page with what was measured in its regions."""
    return REGION.sub(lambda found: found[1] + REGIONS[found[2]](kept) + found[3], page)


def write_pages() -> None:
    """Write all pages anew, and say which of them changed."""
    kept = load()
    for name in PAGES:
        file = ROOT / name
        before = file.read_text(encoding="utf-8")
        after = with_regions(before, kept)
        if after != before:
            file.write_text(after, encoding="utf-8")
            sys.stderr.write(f"{name} has changed\n")
