"""Markdown in which every text is shown as it is."""

import re
from collections.abc import Iterable, Sequence

from fedsim.common.printable import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MENTION = re.compile(r"@(?=\w)")


def escape(text: str) -> str:
    """Write text so that Markdown shows it as it is: no markup, no HTML, no mention of anybody, on one line."""
    flat = printable(" ".join(text.split()), None)
    return _MENTION.sub("@\N{WORD JOINER}", _SPECIAL.sub(r"\\\1", flat).translate(_ENTITIES))


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
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
