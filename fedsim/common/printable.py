r"""Text from files and file names made printable: what it says is seen, and does nothing to what shows it.

Control characters, those that turn the direction of writing, and those that XML cannot hold are written as escapes
(``\x1b``, ``\u202e``). A line that a CI service would take for a command is broken up: GitHub Actions obeys lines
that begin with ``::``, blanks aside, and what follows ``##[`` anywhere.
"""

import re

_NEVER_SHOWN = (
    r"\x00-\x1f\x7f-\x9f"  # controls: C0, DEL and C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    r"\u00ad\u180e\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible
    r"\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # no characters
)
_HIDDEN = re.compile(f"[{_NEVER_SHOWN}]")
_HIDDEN_IN_LINES = re.compile(rf"(?!\n)[{_NEVER_SHOWN}]")
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_OLD_COMMAND, _NO_COMMAND = re.compile(r"##(?=\[)"), r"#\\x23"
_LONGEST = 2_000
"""Characters of one line that are shown."""


def printable(text: str, longest: int | None = _LONGEST) -> str:
    """Return text on one line, with escapes for what is not to be printed.

    The middle of a text with more characters than `longest` is left out; None keeps all.
    """
    if longest is not None and len(text) > longest:
        half = (longest - 5) // 2
        text = f"{text[:half]} ... {text[-half:]}"
    text = text if text.isascii() and text.isprintable() else _HIDDEN.sub(_escape, text)
    return _OLD_COMMAND.sub(_NO_COMMAND, text)


def visible(text: str) -> str:
    """Return text of any number of lines with escapes for what is not to be printed."""
    return text if text.isascii() and text.isprintable() else _HIDDEN_IN_LINES.sub(_escape, text)


def printable_lines(text: str) -> str:
    """Return text of any number of lines for a terminal or a CI service's log, where no line of it is a command."""
    return _OLD_COMMAND.sub(_NO_COMMAND, _COMMAND.sub(r"\1\\x3a", visible(text)))


def _escape(match: "re.Match[str]") -> str:
    return match[0].encode("unicode_escape").decode()
