"""Traces as JSON: ``{device: [[start, end], ...]}``, read piece by piece so that no file can exhaust memory.

The grammar is matched by regular expressions over the bytes: nothing is nested beyond what a trace needs, no number is
longer than a number of seconds can be, and what is read is kept as arrays. ``{device: {"messages": "..."}}``, where the
text holds lines of ``timestamp<TAB>event``, is handed to the reader of events.
"""

import json
import re
from array import array
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.trace.faults import LONGEST_S, MOST_DEVICES, MOST_INTERVALS, TraceError
from fedsim.availability.trace.rows import Rows
from fedsim.traces.events_form import Events

_SPACE = rb"[ \t\r\n]*+"
# JSON numbers, and what programs that know no better write for numbers that are none.
_NUMBER = rb"(?:-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,39})?(?:[eE][+-]?[0-9]{1,6})?|NaN|-?Infinity|null)"
_PAIR = _SPACE + rb"\[" + _SPACE + _NUMBER + _SPACE + rb"," + _SPACE + _NUMBER + _SPACE + rb"\]" + _SPACE
_PAIRS = re.compile(rb"(?:" + _PAIR + rb",){1,4096}+")
_LAST_PAIR = re.compile(_PAIR)
_BLANK = re.compile(_SPACE)
_NAME = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\[^\n]){0,1000}+)"')
_TEXT = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\[^\n])*+"')
_SCALAR = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\[^\n])*+"|' + _NUMBER + rb"|true|false")
_SHAPE = 'a trace is {"device": [[start, end], ...], ...} with times in seconds'


def read_json(path: Path, data: bytes, *, lenient: bool = False) -> Rows | Events:
    """Read a trace from JSON.

    Parameters
    ----------
    path
        How the file is called in messages.
    data
        Its bytes.
    lenient
        Leave impossible times in, to be dropped and counted; else they are refused where they stand.

    Raises
    ------
    TraceError
        With the line and column of what is wrong.
    """
    return _Reader(str(path), data, lenient).read()


class _Reader:
    """Walks once through the bytes; `at` is where it stands."""

    def __init__(self, source: str, data: bytes, lenient: bool) -> None:
        self.source, self.data, self.lenient = source, data, lenient
        self.at = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.names: dict[str, None] = {}
        self.counts = array("q")
        self.blocks: list[NDArray[np.float64]] = []
        self.total = 0
        self.events = Events(source, lenient)

    def read(self) -> Rows | Events:
        self.expect(b"{", _SHAPE)
        if not self.take(b"}"):
            self.device()
            while self.take(b","):
                self.device()
            self.expect(b"}", "expected , or } after a device")
        if self.at < len(self.data):
            self.refuse("expected nothing after the closing }")
        if not self.names:
            self.refuse("has no devices")
        if self.events:
            if self.total:
                self.refuse("has intervals for some devices and messages for others")
            return self.events
        times = np.concatenate([*self.blocks, np.empty(0)]).reshape(-1, 2)
        counts = np.asarray(self.counts, dtype=np.int64)
        devices = np.repeat(np.arange(len(counts)), counts)
        # A device with an empty list is known by a row without times.
        bare = np.flatnonzero(counts == 0)
        nothing = np.full(len(bare), np.nan)
        return Rows(
            names=tuple(self.names),
            devices=np.concatenate([devices, bare]),
            starts=np.concatenate([times[:, 0], nothing]),
            ends=np.concatenate([times[:, 1], nothing]),
            conditions=np.zeros(len(devices) + len(bare), dtype=np.int8),
            source=self.source,
        )

    def device(self) -> None:
        self.blank()
        match = _NAME.match(self.data, self.at)
        if match is None:
            self.refuse(f"expected the name of a device in double quotes; {_SHAPE}")
        name = self.text(match[0])
        if name in self.names:
            self.refuse(f"device {name!r} is there twice")
        if len(self.names) >= MOST_DEVICES:
            self.refuse(f"has more than {MOST_DEVICES:,} devices")
        self.names[name] = None
        self.at = match.end()
        self.expect(b":", "expected : after the name of a device")
        if self.take(b"{"):
            self.messages(name)
            return
        before = self.total
        self.expect(b"[", f"expected the list of intervals of device {name!r}; {_SHAPE}")
        if not self.take(b"]"):
            self.intervals(name)
        self.counts.append(self.total - before)

    def intervals(self, name: str) -> None:
        while (match := _PAIRS.match(self.data, self.at)) is not None:
            self.pairs(match[0][:-1], name)
            self.at = match.end()
        match = _LAST_PAIR.match(self.data, self.at)
        if match is None:
            self.blank()
            self.refuse(f"expected an interval [start, end] of device {name!r}; {_SHAPE}")
        self.pairs(match[0], name)
        self.at = match.end()
        self.expect(b"]", f"expected , or ] after an interval of device {name!r}")

    def pairs(self, written: bytes, name: str) -> None:
        plain = written.translate(None, b"[] \t\r\n").replace(b"null", b"nan").decode()
        times = np.fromstring(plain, sep=",")
        self.total += len(times) // 2
        if self.total > MOST_INTERVALS:
            self.refuse(f"has more than {MOST_INTERVALS:,} intervals")
        with np.errstate(invalid="ignore"):
            impossible = ~(np.abs(times) <= LONGEST_S)
        if not self.lenient and impossible.any():
            first = int(np.argmax(impossible)) // 2
            for _ in range(first):
                match = _LAST_PAIR.match(self.data, self.at)
                self.at = match.end() + 1 if match is not None else self.at
            self.blank()
            start, end = times[2 * first : 2 * first + 2].tolist()
            self.refuse(
                f"device {name!r} has the interval [{start:g}, {end:g}], which is impossible: times are seconds, "
                "finite and within 100 years of the base; with --policy lenient such intervals are dropped"
            )
        self.blocks.append(times)

    def messages(self, name: str) -> None:
        found = False
        while True:
            self.blank()
            key = _NAME.match(self.data, self.at)
            if key is None:
                self.refuse(f'expected a key of device {name!r}, such as "messages"')
            self.at = key.end()
            self.expect(b":", "expected : after a key")
            self.blank()
            value = _SCALAR.match(self.data, self.at)
            if value is None:
                self.refuse(f"expected text or a number for {self.text(key[0])!r} of device {name!r}")
            if key[1] == b"messages":
                if _TEXT.fullmatch(value[0]) is None or found:
                    self.refuse(f"messages of device {name!r} must be text, and given once")
                found = True
                line, _ = _position(self.data, self.at)
                self.events.add_device(name, self.text(value[0]), line, inside=True)
            self.at = value.end()
            if not self.take(b","):
                break
        self.expect(b"}", f"expected , or }} after a value of device {name!r}")
        if not found:
            self.refuse(f"device {name!r} has no messages")

    def text(self, written: bytes) -> str:
        try:
            text = str(json.loads(written))
            text.encode()
        except (UnicodeError, ValueError):
            self.refuse("expected text in UTF-8 with the escapes of JSON")
        return text

    def blank(self) -> None:
        match = _BLANK.match(self.data, self.at)
        self.at = match.end() if match is not None else self.at

    def take(self, mark: bytes) -> bool:
        self.blank()
        there = self.data[self.at : self.at + 1] == mark
        self.at += there
        if there:
            self.blank()
        return there

    def expect(self, mark: bytes, message: str) -> None:
        if not self.take(mark):
            self.refuse(message)

    def refuse(self, message: str) -> NoReturn:
        line, column = _position(self.data, self.at)
        found = self.data[self.at : self.at + 20].split(b"\n")[0].decode("utf-8", "replace")
        there = f"found {found!r}" if self.at < len(self.data) else "the file ends here"
        raise TraceError(
            f"{message} ({there})" if message.startswith(("expected", "a trace")) else message,
            self.source,
            line,
            column,
        )


def _position(data: bytes, at: int) -> tuple[int, int]:
    begin = data.rfind(b"\n", 0, at) + 1
    return data.count(b"\n", 0, at) + 1, len(data[begin:at].decode("utf-8", "replace")) + 1
