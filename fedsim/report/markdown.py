"""Summaries in Markdown, to be posted as a comment: short, and with every name shown as the text that it is."""

from collections.abc import Sequence
from itertools import groupby

from fedsim.common.markdown import block, code, escape, table
from fedsim.common.printable import printable
from fedsim.report.answer import Sentence
from fedsim.report.document import Document
from fedsim.report.tables import Table
from fedsim.report.verdict import Verdict

ROWS = 20
"""Rows of a table shown at most."""

_MARKS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "unjudged": "❔"}


def plain_table(shown: Table) -> str:
    """Write a table of the report, at most `ROWS` rows of it."""
    text = table([escape(head) for head in shown.header], [[escape(cell) for cell in row] for row in shown.rows[:ROWS]])
    left = len(shown.rows) - ROWS
    return f"**{escape(shown.caption)}**\n\n{text}" + (f"\n\n{left} more rows in the report." if left > 0 else "")


def summary(document: Document) -> str:
    """Put a summary together: verdict, answer, key figures, tables, and the command that reruns it."""
    parts = [f"### {escape(document.name)} ({document.kind})"]
    if document.question:
        parts.append(f"*{escape(document.question)}*")
    if document.finding:
        parts.append(f"**{escape(document.finding)}**")
    if (verdict := document.verdict) is not None:
        parts.append(f"{_MARKS[verdict.status]} **{escape(verdict.headline)}**")
        parts.append(_conditions(verdict))
    parts += [_about(about, list(sentences)) for about, sentences in groupby(document.answer, lambda each: each.about)]
    if document.tiles:
        rows = [(escape(tile.label), f"**{escape(tile.value)}**", escape(tile.detail)) for tile in document.tiles]
        parts.append(table(("figure", "value", ""), rows))
    parts += [plain_table(each) for each in document.tables if each is not None]
    if document.command:
        parts.append(
            f"<details><summary>Run it again</summary>\n\n{block(printable(document.command, None))}\n\n</details>"
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(about: str, sentences: Sequence[Sentence]) -> str:
    told = " ".join(f"**{escape(each.text)}**" if each.warns else escape(each.text) for each in sentences)
    return f"*{escape(about)}:* {told}" if about else told


def _conditions(verdict: Verdict) -> str:
    rows = []
    for condition in (*verdict.attention, *verdict.met):
        figures = dict(condition.figures)
        told = "; ".join(escape(text) for text in (condition.why, condition.note) if text)
        rows.append(
            (
                f"{_MARKS[condition.status]} {condition.outcome}",
                code(condition.check),
                *(escape(figures.get(what, "")) for what in ("Observed", "Limit", "Margin")),
                code(condition.place) if condition.place else "",
                told,
            )
        )
    text = table(("", "expectation", "observed", "limit", "margin", "place", "why"), rows)
    return f"{text}\n\n{escape(verdict.omitted)}" if verdict.omitted else text
