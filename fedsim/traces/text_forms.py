"""Traces as text: timed events, or intervals in JSON.

Events are lines of ``timestamp<TAB>event`` for one device, or ``device<TAB>timestamp<TAB>event`` for many. An event
sets conditions on or off, and they stay so until the next event that says otherwise. Before its first event a condition
is off, and after the last line of a device nothing is known, so that its intervals end there.

JSON is ``{device: [[start, end], ...]}``, read piece by piece so that no file can exhaust memory: the grammar is
matched by regular expressions over the bytes, nothing is nested beyond what a trace needs, no number is longer than a
number of seconds can be, and what is read is kept as arrays. ``{device: {"messages": "..."}}`` holds lines of events,
``{device: {"ready_time": [[start, end], ...]}}`` intervals; ``trace_start`` and ``trace_end`` beside them say when the
device was observed, by default from its first to its last event.
"""

import json
import re
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from fedsim.availability.trace.rows import CONDITIONS, LONGEST_S, MOST_DEVICES, TraceError, TraceRows
from fedsim.availability.trace.unions import bulk
from fedsim.common.arrays import Floats

EVENTS: dict[str, dict[str, bool]] = {
    event: states
    for events, states in (
        ("battery_charged_on", {"charging": True}),
        ("battery_charged_off", {"charging": False}),
        ("wifi", {"network": True}),
        ("unknown 2g 3g 4g 5g", {"network": False}),
        ("screen_off screen_lock", {"idle": True}),
        ("screen_on screen_unlock", {"idle": False}),
        ("phone_off", {"charging": False, "network": False, "idle": False}),
        ("phone_on battery_low battery_okay", {}),
    )
    for event in events.split()
}
"""The conditions that each event sets. Battery levels such as ``85.0%`` set none either."""
_CODES = {event: code for code, event in enumerate(EVENTS)}
_LEVEL = _CODES["battery_okay"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN = -1
_SPACE = rb"[ \t\r\n]*+"
# JSON numbers, and what some programs write for missing or infinite ones.
_NUMBER = rb"(?:-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,39})?(?:[eE][+-]?[0-9]{1,6})?|NaN|-?Infinity|null)"
_PAIR = rb"\[" + _SPACE + _NUMBER + _SPACE + rb"," + _SPACE + _NUMBER + _SPACE + rb"\]"
_PAIRS = _PAIR + rb"(?:" + _SPACE + rb"," + _SPACE + _PAIR + rb"){0,4095}+"
_NAME = rb'"(?:[^"\\\x00-\x1f]|\\[^\n]){0,1000}+"'
_SCALAR = rb'"(?:[^"\\\x00-\x1f]|\\[^\n])*+"|true|false|' + _NUMBER
_STATED = ["trace_start", "trace_end"]
_SHAPE = 'a trace is {"device": [[start, end], ...], ...} with times in seconds'
_KINDS = {"number": "a number", "civil": "a date without a zone", "zoned": "a date with a zone"}


@dataclass
class Events:
    """The events of all devices, added line by line.

    `kind` is how the instants are written: ``number``, ``civil`` (no zone) or ``zoned``; empty before the first.
    """

    source: str
    lenient: bool = False
    kind: str = ""
    names: dict[str, int] = field(default_factory=dict)
    devices: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[float]" = field(default_factory=lambda: array("d"))
    codes: "array[int]" = field(default_factory=lambda: array("b"))
    unknown: int = 0
    impossible: int = 0
    # when a device was observed, by its number, where a file says so: two instants, each with how it is written
    stated: dict[int, list[tuple[str, float]]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Give the number of devices."""
        return len(self.names)

    def add(self, text: str, device: str | None = None, inside: int = 0) -> None:
        """Add some lines: ``timestamp<TAB>event``, or ``device<TAB>timestamp<TAB>event`` where no device is given.

        `inside` is the line of a file in which all of the text is one value; else the first line of the text is line 1.
        Raises a `TraceError` with the place of what is wrong.
        """
        name, line_number, skipped = device or "", 0, 0
        if device is not None:
            self.names.setdefault(device, len(self.names))

        def refuse(message: str) -> NoReturn:
            raise TraceError(message, self.source, line_number, skipped + 1)

        for number, written in enumerate(text.split("\n"), 1):
            if not written.strip():
                continue
            line_number, line = inside or number, written
            if device is None:
                skipped = 0
                name, tab, line = written.partition("\t")
                if not tab or not name.strip():
                    refuse("expected device<TAB>timestamp<TAB>event")
                name, skipped = name.strip(), len(name) + 1
            if len(self.names) >= MOST_DEVICES and name not in self.names:
                refuse(f"has more than {MOST_DEVICES:,} devices")
            owner = self.names.setdefault(name, len(self.names))
            stamp, tab, event = line.partition("\t")
            if not tab or "\t" in event.strip():
                refuse(f"expected timestamp<TAB>event, found {line[:40]!r}")
            kind, instant = read_instant(stamp.strip())
            if not kind:
                refuse(f"expected a time such as 2020-01-31 08:15:00 or a number of seconds, found {stamp[:40]!r}")
            if self.kind and kind != self.kind:
                refuse(f"writes a time as {_KINDS[kind]}, and earlier ones as {_KINDS[self.kind]}")
            self.kind = kind
            word = event.strip().lower()
            code = _CODES.get(word, _LEVEL if word.endswith("%") else _UNKNOWN)
            self.unknown += code == _UNKNOWN
            if kind != "number" or abs(instant) <= LONGEST_S:
                self.devices.append(owner)
                self.times.append(instant)
                self.codes.append(code)
            elif self.lenient:
                self.impossible += 1
            else:
                refuse(
                    f"the time {stamp.strip()[:40]} is impossible: times are seconds, finite and within 100 years of "
                    "the base; with --policy lenient such events are dropped"
                )

    def base(self) -> datetime | None:
        """Return midnight before the first event, wild ones aside; None where times are bare numbers."""
        if self.kind == "number" or not self.times:
            return None
        return _EPOCH + timedelta(days=bulk(np.asarray(self.times))[0] // 86_400)

    def rows(self, base: datetime | None) -> tuple[TraceRows, int]:
        """Return the intervals in which each condition holds, and how many events were out of order.

        `base` is the instant of second 0; times without a zone are read in its own offset from UTC.
        """
        second_0 = 0.0
        if base is not None and self.kind != "number":
            second_0 = (base.replace(tzinfo=UTC) if self.kind == "civil" else base).timestamp()
        columns = {"device": self.devices, "time": self.times, "code": self.codes}
        events = pl.DataFrame({name: np.asarray(values) for name, values in columns.items()})
        events = events.with_columns(pl.col("time") - second_0)
        unordered = (events["device"].diff() == 0) & (events["time"].diff() < 0)
        events = events.sort("device", "time", maintain_order=True)
        seen = np.full((len(self.names), 3), np.nan)
        observed = events.group_by("device").agg(first=pl.col("time").first(), last=pl.col("time").last())
        seen[observed["device"].to_numpy(), :2] = observed.select("first", "last").to_numpy()
        for device, instants in self.stated.items():
            given = [value - (second_0 if kind != "number" else 0.0) for kind, value in instants]
            seen[device, :2] = np.where(np.isnan(given), seen[device, :2], given)
        held = pl.concat([_holding(events, code) for code in range(1, len(CONDITIONS))])
        devices, starts, ends, conditions = (held[name].to_numpy() for name in ("device", "time", "end", "condition"))
        rows = TraceRows(tuple(self.names), devices, starts, ends, conditions, self.source, seen=seen)
        return rows, int(unordered.sum())


def _holding(events: pl.DataFrame, condition: int) -> pl.DataFrame:
    """Return every stretch in which a condition holds; what holds at a device's last event ends there."""
    name = CONDITIONS[condition]
    states = {_CODES[event]: states[name] for event, states in EVENTS.items() if name in states}
    on, by_device = pl.col("on"), "device"
    return (
        events.with_columns(
            on=pl.col("code").replace_strict(states, default=None, return_dtype=pl.Boolean),
            last=pl.col("time").last().over(by_device),
        )
        .drop_nulls("on")
        .filter(on.ne_missing(on.shift().over(by_device)))
        .with_columns(end=pl.col("time").shift(-1).over(by_device).fill_null(pl.col("last")))
        .filter("on")
        .with_columns(condition=pl.lit(condition, dtype=pl.Int8))
    )


def read_instant(text: str) -> tuple[str, float]:
    """Return how an instant is written and its number of seconds, since 1970 unless it is a number."""
    with suppress(ValueError):
        return "number", float(text)
    with suppress(ValueError):
        instant = datetime.fromisoformat(text)
        kind = "civil" if instant.tzinfo is None else "zoned"
        return kind, (instant.replace(tzinfo=instant.tzinfo or UTC) - _EPOCH).total_seconds()
    return "", 0.0


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
        self.stated: dict[str, list[tuple[str, float]]] = {}
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
            self.events.stated = {self.events.names[name]: instants for name, instants in self.stated.items()}
            return self.events
        times = np.concatenate([*self.blocks, np.empty(0)]).reshape(-1, 2)
        devices = np.repeat(np.array(self.owners, dtype=np.int64), [len(block) // 2 for block in self.blocks])
        codes = np.zeros(len(devices), dtype=np.int8)
        seen = None
        if self.stated:
            seen = np.full((len(self.names), 3), np.nan)
            for name, instants in self.stated.items():
                seen[self.names[name], :2] = [value for _, value in instants]
        return TraceRows(tuple(self.names), devices, times[:, 0], times[:, 1], codes, self.source, seen=seen)

    def device(self) -> None:
        name = self.decoded(self.expect(_NAME, f"expected the name of a device in double quotes; {_SHAPE}"))
        if name in self.names:
            self.refuse(f"device {name!r} is there twice", self.began)
        if len(self.names) >= MOST_DEVICES:
            self.refuse(f"has more than {MOST_DEVICES:,} devices", self.began)
        self.names[name] = len(self.names)
        self.expect(b":", "expected : after the name of a device")
        if self.take(rb"\{"):
            self.described(name)
        else:
            self.intervals(name)

    def intervals(self, name: str) -> None:
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

    def described(self, name: str) -> None:
        found, more, instants = False, True, [("number", np.nan)] * 2
        while more:
            key = self.decoded(self.expect(_NAME, f'expected a key of device {name!r}, such as "messages"'))
            self.expect(b":", "expected : after a key")
            if key == "ready_time":
                if found:
                    self.refuse(f"device {name!r} has more than one of messages and ready_time")
                self.intervals(name)
            else:
                value = self.expect(_SCALAR, f"expected text or a number for {key!r} of device {name!r}")
                if key == "messages":
                    if found or not value.startswith(b'"'):
                        self.refuse(f"messages of device {name!r} must be text, and given once", self.began)
                    self.events.add(self.decoded(value), name, position(self.data, self.began)[0])
                elif key in _STATED and value != b"null":
                    instants[_STATED.index(key)] = self.instant(key, value)
            found |= key in {"ready_time", "messages"}
            more = self.expect(b"[,}]", f"expected , or }} after a value of device {name!r}") == b","
        if not found:
            self.refuse(f"device {name!r} has no messages and no ready_time")
        if not all(np.isnan(value) for _, value in instants):
            self.stated[name] = instants

    def instant(self, key: str, value: bytes) -> tuple[str, float]:
        text = self.decoded(value) if value.startswith(b'"') else value.decode()
        kind, seconds = read_instant(text)
        if not kind or not np.isfinite(seconds) or (kind == "number" and abs(seconds) > LONGEST_S):
            self.refuse(f"{key} must be a number of seconds or a date such as 2020-01-31 08:15:00", self.began)
        return kind, seconds

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
