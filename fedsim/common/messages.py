"""What a command prints: data on stdout, everything else on stderr; all of it printable, whatever file it is from."""

import re
import sys
from collections.abc import Iterable
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


def complain(text: str) -> None:
    """Tell a person something."""
    sys.stderr.write(printable_lines(text) + "\n")


def keep_quiet(_text: str) -> None:
    """Tell nobody: in the place of `complain` where a person wants to hear of errors alone."""


def annotate(lines: Iterable[str]) -> None:
    """Give GitHub Actions commands of our own, a line each; what they quote was made printable by who made them."""
    sys.stderr.writelines(line + "\n" for line in lines)


def _json_escape(found: "re.Match[str]") -> str:
    """Write what is not to be printed the way JSON does: it can stand in a text alone, and means the same there."""
    if printable(found[0]) == found[0]:
        return found[0]
    pairs = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))
