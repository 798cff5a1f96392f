"""Traces as JSON: ``{device: [[start, end], ...]}``, read piece by piece so that no file can exhaust memory.

The grammar is matched by regular expressions over the bytes: nothing is nested beyond what a trace needs, no number is
longer than a number of seconds can be, and what is read is kept as arrays. ``{device: {"messages": "..."}}``, where the
text has lines of ``timestamp<TAB>event``, goes to the reader of events.
"""

import json
import re
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from fedsim.availability.trace.rows import LONGEST_S, MOST_DEVICES, TraceError, TraceRows
from fedsim.common.arrays import Floats
from fedsim.traces.events_form import Events

_SPACE = rb"[ \t\r\n]*+"
# JSON numbers, and what some programs write for missing or infinite ones.
_NUMBER = rb"(?:-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,39})?(?:[eE][+-]?[0-9]{1,6})?|NaN|-?Infinity|null)"
_PAIR = rb"\[" + _SPACE + _NUMBER + _SPACE + rb"," + _SPACE + _NUMBER + _SPACE + rb"\]"
_PAIRS = _PAIR + rb"(?:" + _SPACE + rb"," + _SPACE + _PAIR + rb"){0,4095}+"
_NAME = rb'"(?:[^"\\\x00-\x1f]|\\[^\n]){0,1000}+"'
_SCALAR = rb'"(?:[^"\\\x00-\x1f]|\\[^\n])*+"|true|false|' + _NUMBER
_SHAPE = 'a trace is {"device": [[start, end], ...], ...} with times in seconds'


def read_json(path: Path, data: bytes, *, lenient: bool = False) -> TraceRows | Events:
    """Read a trace from JSON; `path` is for messages.

    Impossible times are refused where they stand or, if `lenient`, left in to be dropped and counted. Raises a
    `TraceError` with the line and column of what is wrong.
    """
    return _Reader(str(path), data, lenient).read()


class _Reader:
    """Walks once through the bytes; `at` is where it stands."""

    def __init__(self, source: str, data: bytes, lenient: bool) -> None:
        self.source, self.data, self.lenient = source, data, lenient
        self.at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.names: dict[str, int] = {}
        self.owners: list[int] = []
        self.blocks: list[Floats] = []
        self.events = Events(source, lenient)

    def read(self) -> TraceRows | Events:
        self.expect(rb"\{", _SHAPE)
        more = self.take(rb"\}") is None
        while more:
            self.device()
            more = self.expect(rb"[,}]", "expected , or } after a device") == b","
        self.expect(rb"\Z", "expected nothing after the closing }")
        if not self.names:
            self.refuse("has no devices")
        if self.events:
            if self.blocks:
                self.refuse("has intervals for some devices and messages for others")
            return self.events
        times = np.concatenate([*self.blocks, np.empty(0)]).reshape(-1, 2)
        devices = np.repeat(np.array(self.owners, dtype=np.int64), [len(block) // 2 for block in self.blocks])
        codes = np.zeros(len(devices), dtype=np.int8)
        return TraceRows(tuple(self.names), devices, times[:, 0], times[:, 1], codes, self.source)

    def device(self) -> None:
        name = self.text(_NAME, f"expected the name of a device in double quotes; {_SHAPE}")
        if name in self.names:
            self.refuse(f"device {name!r} is there twice", self.began)
        if len(self.names) >= MOST_DEVICES:
            self.refuse(f"has more than {MOST_DEVICES:,} devices", self.began)
        self.names[name] = len(self.names)
        self.expect(b":", "expected : after the name of a device")
        if self.take(rb"\{"):
            self.messages(name)
            return
        self.expect(rb"\[", f"expected the list of intervals of device {name!r}; {_SHAPE}")
        more = self.take(rb"\]") is None
        while more:
            self.pairs(name, self.expect(_PAIRS, f"expected an interval [start, end] of device {name!r}; {_SHAPE}"))
            more = self.expect(rb"[],]", f"expected , or ] after an interval of device {name!r}") == b","

    def pairs(self, name: str, written: bytes) -> None:
        plain = written.translate(None, b"[] \t\r\n").replace(b"null", b"nan").decode()
        times = np.fromstring(plain, sep=",")
        impossible = np.flatnonzero(~(np.abs(times) <= LONGEST_S)) // 2
        if len(impossible) and not self.lenient:
            first = int(impossible[0])
            start, end = times[2 * first : 2 * first + 2].tolist()
            self.refuse(
                f"device {name!r} has the interval [{start:g}, {end:g}], which is impossible: times are seconds, "
                "finite and within 100 years of the base; with --policy lenient such intervals are dropped",
                self.began + next(islice(re.finditer(_PAIR, written), first, None)).start(),
            )
        self.owners.append(self.names[name])
        self.blocks.append(times)

    def messages(self, name: str) -> None:
        found, more = False, True
        while more:
            key = self.text(_NAME, f'expected a key of device {name!r}, such as "messages"')
            self.expect(b":", "expected : after a key")
            value = self.expect(_SCALAR, f"expected text or a number for {key!r} of device {name!r}")
            if key == "messages":
                if found or not value.startswith(b'"'):
                    self.refuse(f"messages of device {name!r} must be text, and given once", self.began)
                found = True
                line, _ = position(self.data, self.began)
                self.events.add(self.decoded(value), name, line)
            more = self.expect(b"[,}]", f"expected , or }} after a value of device {name!r}") == b","
        if not found:
            self.refuse(f"device {name!r} has no messages")

    def take(self, pattern: bytes) -> bytes | None:
        """Step over blanks and what matches, if it does; `began` is where it began."""
        found = re.compile(_SPACE + b"(" + pattern + b")").match(self.data, self.at)
        if found is None:
            return None
        self.began, self.at = found.start(1), found.end()
        return found[1]

    def expect(self, pattern: bytes, message: str) -> bytes:
        found = self.take(pattern)
        return self.refuse(message) if found is None else found

    def text(self, pattern: bytes, message: str) -> str:
        return self.decoded(self.expect(pattern, message))

    def decoded(self, written: bytes) -> str:
        try:
            text = str(json.loads(written))
            text.encode()
        except (UnicodeError, ValueError):
            self.refuse("expected text in UTF-8 with the escapes of JSON", self.began)
        return text

    def refuse(self, message: str, at: int | None = None) -> NoReturn:
        if at is None:
            self.take(b"")  # blanks
            at = self.at
        if message.startswith(("expected", "a trace")):
            found = self.data[at : at + 20].split(b"\n")[0].decode("utf-8", "replace")
            message += f" (found {found!r})" if at < len(self.data) else " (the file ends here)"
        raise TraceError(message, self.source, *position(self.data, at))


def position(data: bytes, at: int) -> tuple[int, int]:
    """Return the line and the column of a byte, from 1."""
    begin = data.rfind(b"\n", 0, at) + 1
    return data.count(b"\n", 0, at) + 1, len(data[begin:at].decode("utf-8", "replace")) + 1
