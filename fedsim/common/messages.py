"""What a command prints: data on stdout, everything else on stderr; all of it printable, whatever file it is from.

stderr never blocks its writer: the work goes on when nobody reads the messages.
"""

import atexit
import io
import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from fedsim.common.printable import printable, printable_lines

_HIDDEN_IN_JSON = re.compile(r"[^\n\x20-\x7e]")
_ENDLESS = 1 << 20  # columns where there is no terminal
_MOST = 1 << 20  # bytes that wait for a reader of stderr; beyond them, what comes is left out
_PATIENCE_S = 3.0  # how long a process that ends waits for somebody to read on


def say(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(printable_lines(text) + "\n")


def say_json(data: Any) -> None:
    """Print data as JSON; null stands for numbers that are not finite."""
    from fedsim.common.json_files import as_json, finite

    sys.stdout.write(_HIDDEN_IN_JSON.sub(_json_escape, as_json(finite(data))))


def as_yaml(data: Any) -> str:
    """Return mappings, lists and scalars as YAML text, without an end of line."""
    from ruamel.yaml import YAML  # takes long to import

    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = None
    yaml.width = 1000
    yaml.dump(data, text)
    return text.getvalue().rstrip("\n")


def plain(text: str) -> str:
    """Replace no-break spaces, which would keep words from being found in a terminal."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


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


def fitted_table(sides: str, header: Sequence[str], *rows: Sequence[str]) -> tuple[str, int]:
    """Return a table that fits a terminal, and how many of its last columns are left out.

    Heads take several lines where they are wider than what stands below them. Off a terminal all is shown.
    """
    width = get_terminal_size((_ENDLESS, 0)).columns
    whole = text_table(sides, [header, *rows])
    if len(whole.partition("\n")[0]) <= width:
        return whole, 0
    room = [max(map(len, (*head.split(), *column))) for head, *column in zip(header, *rows, strict=True)]
    kept = max(1, sum(total <= width + 2 for total in accumulate(each + 2 for each in room)))
    heads = [wrap(head, widest) for head, widest in zip(header[:kept], room, strict=False)]
    lines = [[each[at] if at < len(each) else "" for each in heads] for at in range(max(map(len, heads)))]
    return text_table(sides[:kept], [*lines, *(row[:kept] for row in rows)]), len(header) - kept


def folded(text: str) -> str:
    """Break a line between words where a terminal would break it anywhere."""
    width = get_terminal_size((_ENDLESS, 0)).columns
    lines = wrap(text, width - 2, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join(lines) if len(text) > width else text


def complain(text: str, *, red: bool = False) -> None:
    """Tell a person something; `red` is for errors, and means something on terminals alone."""
    shown = printable_lines(text)
    if red and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        shown = f"\x1b[31m{shown}\x1b[0m"
    sys.stderr.write(shown + "\n")


def log_warning(text: str) -> None:
    """Tell something to who calls fedsim from Python: the logger ``fedsim`` shows it on stderr, if nobody sets it."""
    logging.getLogger("fedsim").warning("%s", printable_lines(text))


def keep_quiet(_text: str) -> None:
    """Print nothing: replaces `complain` where only errors are wanted."""


def annotate(lines: Iterable[str]) -> None:
    """Give GitHub Actions commands of our own, a line each; what they quote was made printable by who made them."""
    sys.stderr.writelines(line + "\n" for line in lines)


def _json_escape(match: "re.Match[str]") -> str:
    """Write what is not to be printed the way JSON does: it can stand in a text alone, and means the same there."""
    if printable(match[0]) == match[0]:
        return match[0]
    pairs = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))


class PatientPipe(io.FileIO):
    """A pipe or a terminal, written by a thread of its own.

    A pipe or a terminal that nobody reads is full after some kilobytes, and a plain write then waits for ever. Here a
    write only adds to what the thread has to do: up to 1 MiB waits, and what comes beyond that is left out. `drain`
    waits for the thread as long as the reader takes something. The descriptor stays open.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._descriptor = descriptor
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._process = os.getpid()
        threading.Thread(target=self._write_on, name="stderr", daemon=True).start()

    def write(self, content: Any, /) -> int:
        """Hand bytes over, and go on."""
        data = bytes(content)
        if os.getpid() != self._process:  # a forked child has no such thread
            return os.write(self._descriptor, data)
        with self._changed:
            if self._waiting + len(data) <= _MOST:
                self._pieces.append(data)
                self._waiting += len(data)
                self._changed.notify_all()
        return len(data)

    def drain(self) -> None:
        """Wait until all is written, or for some seconds in which nobody reads."""
        if os.getpid() != self._process:
            return
        with self._changed:
            progress = True
            while (before := self._waiting) and progress:
                progress = self._changed.wait_for(lambda: self._waiting < before, _PATIENCE_S)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                while not self._pieces:
                    self._changed.wait()
                left = self._pieces.popleft()
            while left:
                try:
                    size = os.write(self._descriptor, left[:512])
                except OSError:  # the reader has gone
                    size = len(left)
                left = left[size:]
                with self._changed:
                    self._waiting -= size
                    self._changed.notify_all()


def never_wait_on_stderr() -> None:
    """Let this process's stderr be a `PatientPipe`, unless it is a file, which never keeps anybody waiting."""
    try:
        descriptor = sys.stderr.fileno()
        if os.path.isfile(descriptor):  # noqa: PTH113  of a descriptor
            return
    except (AttributeError, OSError, ValueError):  # closed, or one that a program has put there
        return
    pipe = PatientPipe(descriptor)
    sys.stderr = io.TextIOWrapper(pipe, sys.stderr.encoding, "backslashreplace", write_through=True)
    atexit.register(pipe.drain)
