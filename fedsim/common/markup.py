"""Markdown and HTML in which every text is shown as it is."""

import html
import re
from collections.abc import Iterable, Sequence

from fedsim.common.printable import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")
_MENTION = re.compile(r"@(?=\w)")
_STYLE = "border-collapse: collapse; font-variant-numeric: tabular-nums"
_CELL = "padding: 0.15rem 0.9rem 0.15rem 0; text-align: {}; vertical-align: top"
"""On the elements themselves, so that nothing outside changes, and without colours: those of the notebook hold."""


def escape(text: str) -> str:
    """Write text so that Markdown shows it as it is: no markup, no HTML, no mention of anybody, on one line."""
    flat = printable(" ".join(text.split()), None)
    return _MENTION.sub("@\N{WORD JOINER}", html.escape(_SPECIAL.sub(r"\\\1", flat), quote=False))


def code(text: str) -> str:
    """Write text as code; its own backticks need a longer fence."""
    flat = printable(" ".join(text.split()), None)
    fence = "`" * (1 + max(map(len, re.findall("`+", flat)), default=0))
    edge = " " if flat.startswith("`") or flat.endswith("`") else ""
    # In a table a bar would end the cell even within code.
    return f"{fence}{edge}{flat}{edge}{fence}".replace("|", "\\|")


def block(text: str) -> str:
    """Write text as a block of code."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; its cells are Markdown already."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def fragment(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 0, notes: Iterable[str] = ()
) -> str:
    """Return what a notebook shows of a value: a title, a table and sentences beneath it, from plain text.

    The first `words` columns hold words and begin at the left; the others hold numbers.
    """
    head = f"<thead><tr>{_cells('th', header, words)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('td', row, words)}</tr>" for row in rows)
    sentences = "".join(f"<p>{_text(note)}</p>" for note in notes)
    table = f'<table style="{_STYLE}">{head}<tbody>{body}</tbody></table>'
    return f'<div class="fedsim-answer"><p><b>{_text(title)}</b></p>{table}{sentences}</div>'


def _cells(tag: str, row: Sequence[str], words: int) -> str:
    return "".join(
        f'<{tag} style="{_CELL.format("left" if at < words else "right")}">{_text(cell)}</{tag}>'
        for at, cell in enumerate(row)
    )


def _text(text: str) -> str:
    return html.escape(printable(text))
