"""What notebooks show of a value: a title and a table, in HTML in which every text is shown as it is."""

from collections.abc import Iterable, Sequence
from html import escape

from fedsim.common.printable import printable

_STYLE = "border-collapse: collapse; font-variant-numeric: tabular-nums"
_CELL = "padding: 0.15rem 0.9rem 0.15rem 0; text-align: {}; vertical-align: top"
"""On the elements themselves, so that nothing outside changes, and without colours: those of the notebook hold."""


def fragment(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 0, notes: Iterable[str] = ()
) -> str:
    """Return a title, a table and sentences beneath it, from plain text.

    The first `words` columns hold words and begin at the left; the others hold numbers.
    """
    head = f"<thead><tr>{_cells('th', header, words)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('td', row, words)}</tr>" for row in rows)
    told = "".join(f"<p>{_text(note)}</p>" for note in notes)
    table = f'<table style="{_STYLE}">{head}<tbody>{body}</tbody></table>'
    return f'<div class="fedsim-answer"><p><b>{_text(title)}</b></p>{table}{told}</div>'


def _cells(tag: str, row: Sequence[str], words: int) -> str:
    return "".join(
        f'<{tag} style="{_CELL.format("left" if at < words else "right")}">{_text(cell)}</{tag}>'
        for at, cell in enumerate(row)
    )


def _text(text: str) -> str:
    return escape(printable(text))
