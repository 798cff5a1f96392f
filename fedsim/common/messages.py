"""What a command prints: data on stdout, everything else on stderr; all of it printable, whatever file it is from."""

import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from fedsim.common.printable import printable, printable_lines

_HIDDEN_IN_JSON = re.compile(r"[^\n\x20-\x7e]")


def say(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(printable_lines(text) + "\n")


def say_json(data: Any) -> None:
    """Print data as JSON."""
    from fedsim.common.json_files import as_json

    sys.stdout.write(_HIDDEN_IN_JSON.sub(_json_escape, as_json(data)))


def as_yaml(data: Any) -> str:
    """Return mappings, lists and scalars as YAML text, without an end of line."""
    from ruamel.yaml import YAML  # takes long to import

    yaml, text = YAML(), StringIO()
    yaml.default_flow_style = None
    yaml.width = 1000
    yaml.dump(data, text)
    return text.getvalue().rstrip("\n")


def text_table(sides: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose columns are as wide as their widest cell.

    `sides` has a character for each column: ``<`` sets its cells to the left, ``>`` to the right, ``^`` to the middle.
    """
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    columns = list(zip(sides, widths, strict=True))
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, (side, width) in zip(row, columns, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def complain(text: str) -> None:
    """Tell a person something."""
    sys.stderr.write(printable_lines(text) + "\n")


def keep_quiet(_text: str) -> None:
    """Print nothing: replaces `complain` where only errors are wanted."""


def annotate(lines: Iterable[str]) -> None:
    """Give GitHub Actions commands of our own, a line each; what they quote was made printable by who made them."""
    sys.stderr.writelines(line + "\n" for line in lines)


def _json_escape(found: "re.Match[str]") -> str:
    """Write what is not to be printed the way JSON does: it can stand in a text alone, and means the same there."""
    if printable(found[0]) == found[0]:
        return found[0]
    pairs = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))
