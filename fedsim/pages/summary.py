"""An answer as a line of JSON, and as a summary in Markdown."""

import json
from itertools import groupby

from fedsim.common.markup import block, code, escape, table
from fedsim.common.printable import printable
from fedsim.pages.answer import Answer, Grade
from fedsim.pages.expectations import Verdict
from fedsim.pages.tables import Table

_ROWS = 20  # rows of a table shown at most
_MARKS = {"pass": "✅", "warn": "⚠️", "fail": "❌", "unjudged": "❔"}
_STATES = {Grade.OK: "✅", Grade.CAUTION: "⚠️", Grade.BAD: "❌"}


def json_summary(answer: Answer) -> str:
    """Return an answer as a line of JSON."""
    return json.dumps(answer.json(), ensure_ascii=False, allow_nan=False)


def markdown_summary(answer: Answer) -> str:
    """Put a summary together: headline, expectations, checks, key figures, tables, and the command that reruns it."""
    parts = [f"### {escape(answer.name)} ({answer.kind})"]
    parts += [f"*{escape(answer.question)}*"] if answer.question else []
    parts += [f"**{escape(answer.headline)}**", escape(answer.setup)]
    if (verdict := answer.verdict) is not None:
        parts += [f"{_MARKS[verdict.status]} **{escape(verdict.headline)}**", _conditions(verdict)]
    if answer.tiles:
        rows = [(escape(tile.label), f"**{escape(tile.value)}**", escape(tile.detail)) for tile in answer.tiles]
        parts.append(table(("figure", "value", ""), rows))
    shown = [*answer.sentences, *answer.remedies]
    items = list[str]()
    for about, same in groupby(shown, lambda each: each.about):
        words = ((escape(each.text), *map(code, each.command.splitlines())) for each in same)
        text = " ".join(" ".join(each) for each in words)
        items.append(f"- *{escape(about)}:* {text}" if about else f"- {text}")
    parts.append("\n".join(items))
    checks = [each for each in answer.checks if each.state is not Grade.NONE]
    if checks:
        states = [(f"{_STATES[each.state]} {escape(each.name)}", escape(each.text)) for each in checks]
        parts.append(table(("check", ""), states))
    tables = [each for section in answer.sections if not section.folded for each in section.tables if each is not None]
    parts += [_plain_table(each) for each in tables if each.rows]
    commands = [origin.command for origin in answer.origins.values() if origin.command]
    if len(answer.origins) == 1 and commands:
        again = block(printable(commands[0], None))
        parts.append(f"<details><summary>Run it again</summary>\n\n{again}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain_table(shown: Table) -> str:
    """Write a table of the report, at most so many rows of it."""
    text = table(list(map(escape, shown.header)), [list(map(escape, row)) for row in shown.rows[:_ROWS]])
    left = len(shown.rows) - _ROWS
    return f"**{escape(shown.caption)}**\n\n{text}" + (f"\n\n{left} more rows in the report." if left > 0 else "")


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
