"""Traces as text: timed events, or intervals in JSON.

Events are lines of ``timestamp<TAB>event`` for one device, or ``device<TAB>timestamp<TAB>event`` for many. An event
sets conditions on or off, and they stay so until the next event that says otherwise. Before its first event a condition
is unknown, so that a device counts as observed from when all conditions that it has events of are known; after its last
line nothing is known, so that its intervals end there. So too after a phone was off, until there is an event of each
condition that the device has others of. A condition that events only set off is never on.

JSON is ``{device: [[start, end], ...]}``, or ``{device: ["on", [t1, t2, ...]]}`` with a state at second 0 (``on`` or
``off``) and when it changes, after the last of which nothing is known.
``{device: {"messages": "..."}}`` holds lines of events, ``{device: {"ready_time": [[start, end], ...]}}`` intervals;
``trace_start`` and ``trace_end`` beside them say when the device was observed, by default from its first to its last
event.
"""

import json
import re
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn

import numpy as np
import polars as pl

from fedsim.availability.trace.bulk import bulk
from fedsim.availability.trace.rows import (
    CONDITIONS,
    LONGEST_NAME,
    LONGEST_S,
    MOST_DEVICES,
    STATES,
    UNKNOWN,
    TraceError,
    TraceRows,
)
from fedsim.common.arrays import Floats
from fedsim.common.memory import too_much

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
_LEVEL, _OFF = _CODES["battery_okay"], _CODES["phone_off"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN = -1
_BETWEEN, _JSON = re.compile(r"[ \t\r\n,:]*"), json.JSONDecoder()
_MEMORY = 36  # bytes that a character of JSON may take while it is read, at worst: [0],[0],[0], ...
_STATED = ["trace_start", "trace_end"]
_SHAPE = 'a trace is {"device": [[start, end], ...], ...} or {"device": ["on", [t1, t2, ...]], ...}, times in seconds'
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

    def add(self, text: str, device: str | None = None) -> None:
        """Add some lines: ``timestamp<TAB>event``, or ``device<TAB>timestamp<TAB>event`` where no device is given.

        The first line of the text is line 1. Raises a `TraceError` with the place of what is wrong.
        """
        name, line_number, skipped = device or "", 0, 0
        if device is not None:
            self.names.setdefault(device, len(self.names))

        def refuse(message: str) -> NoReturn:
            raise TraceError(message, self.source, line_number, skipped + 1)

        for number, written in enumerate(text.split("\n"), 1):
            if not written.strip():
                continue
            line_number, line = number, written
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
        events = events.with_columns(last=pl.col("time").last().over("device"))
        seen = np.full((len(self.names), 3), np.nan)
        about = {code: events.filter(pl.col("code").is_in([*_states(code)])) for code in range(1, len(CONDITIONS))}
        about = {code: each for code, each in about.items() if (each["code"] != _OFF).any()} or about
        firsts = pl.concat([each.group_by("device").agg(first=pl.col("time").first()) for each in about.values()])
        observed = firsts.group_by("device").agg(pl.col("first").max())
        observed = observed.join(events.group_by("device").agg(pl.col("last").first()), on="device")
        seen[observed["device"].to_numpy(), :2] = observed.select("first", "last").to_numpy()
        for device, instants in self.stated.items():
            given = [value - (second_0 if kind != "number" else 0.0) for kind, value in instants]
            seen[device, :2] = np.where(np.isnan(given), seen[device, :2], given)
        held = pl.concat([_holding(each, code) for code, each in about.items()])
        known_s = seen[held["device"].to_numpy(), 0]
        held = held.with_columns(pl.Series("time", np.fmax(held["time"].to_numpy(), known_s))).filter(
            pl.col("end") > pl.col("time")
        )
        none = {"time": pl.lit(np.nan), "end": pl.lit(np.nan)}
        never = [
            each.head(1).with_columns(**none, condition=pl.lit(code, pl.Int8))
            for code, each in about.items()
            if code not in held["condition"]
        ]
        held = pl.concat([held, *never, _unknown(events)], how="diagonal")
        devices, starts, ends, conditions = (held[name].to_numpy() for name in ("device", "time", "end", "condition"))
        rows = TraceRows(tuple(self.names), devices, starts, ends, conditions, self.source, seen=seen)
        return rows, int(unordered.sum())


def _states(condition: int) -> dict[int, bool]:
    """Return what each event that says something of a condition says, by its code."""
    name = CONDITIONS[condition]
    return {_CODES[event]: states[name] for event, states in EVENTS.items() if name in states}


def _holding(events: pl.DataFrame, condition: int) -> pl.DataFrame:
    """Return every stretch in which a condition holds, by the events about it; an open one ends with the record."""
    on, by_device = pl.col("on"), "device"
    return (
        events.with_columns(on=pl.col("code").replace_strict(_states(condition), return_dtype=pl.Boolean))
        .filter(on.ne_missing(on.shift().over(by_device)))
        .with_columns(end=pl.col("time").shift(-1).over(by_device).fill_null(pl.col("last")))
        .filter("on")
        .with_columns(condition=pl.lit(condition, dtype=pl.Int8))
    )


def _unknown(events: pl.DataFrame) -> pl.DataFrame:
    """Return the stretches after a phone was off, from its next event to the first of each condition that it has."""
    life, code = ["device", "life"], pl.col("code")
    events = events.with_columns(life=(code == _OFF).cum_sum().over("device"))
    over = events.filter(code == _OFF).select("device", pl.col("life") - 1, over="time")
    events = events.filter(code != _OFF)
    begun = events.filter(pl.col("life") > 0).group_by(life).agg(pl.col("time", "last").first())
    begun = begun.join(over, on=life, how="left").with_columns(pl.coalesce("over", "last"), end=pl.col("time"))
    for condition in range(1, len(CONDITIONS)):
        about = events.filter(code.is_in([*_states(condition)]))
        begins = about.group_by(life).agg(again=pl.col("time").first())
        begun = begun.join(begins, on=life, how="left").with_columns(
            end=pl.when(pl.col("device").is_in(about["device"].unique().implode()))
            .then(pl.max_horizontal("end", pl.coalesce("again", "over")))
            .otherwise("end")
        )
        begun = begun.drop("again")
    unknown = pl.lit(STATES.index(UNKNOWN), pl.Int8)
    return (
        begun.sort("device", "time")
        .select("device", "time", "end", condition=unknown)
        .filter(pl.col("end") > pl.col("time"))
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


def read_json(path: Path, text: str, *, lenient: bool = False) -> TraceRows | Events:
    """Read a trace from JSON; `path` is for messages.

    Impossible times are refused where they stand or, if `lenient`, left in to be dropped and counted. Raises a
    `TraceError` with the line and column of what is wrong, or if the text may not fit into the memory.
    """
    if why := too_much(_MEMORY * len(text)):
        raise TraceError(f"{why}; split it into several files, or convert it to CSV or Parquet", str(path))
    try:
        content = json.loads(text, object_pairs_hook=tuple, parse_int=float)
    except json.JSONDecodeError as error:
        raise TraceError(f"is not JSON: {error.msg}; {_SHAPE}", str(path), error.lineno, error.colno) from None
    except RecursionError:
        raise TraceError(f"is nested too deep; {_SHAPE}", str(path), 1, 1) from None
    return _Reader(str(path), text, lenient).read(content)


class _Reader:
    """Reads values of JSON, of which an object is a tuple of pairs.

    Where a value is written is told by the number of the device and of what is inside; see `refuse`.
    """

    def __init__(self, source: str, text: str, lenient: bool) -> None:
        self.source, self.text, self.lenient = source, text, lenient
        self.names: dict[str, int] = {}
        self.blocks: list[Floats] = []
        self.stated: dict[str, list[tuple[str, float]]] = {}
        self.events = Events(source, lenient)

    def read(self, devices: Any) -> TraceRows | Events:
        if not isinstance(devices, tuple):
            self.refuse(_SHAPE)
        for number, (name, value) in enumerate(devices):
            if len(name) > LONGEST_NAME or name.encode(errors="replace").decode() != name:
                self.refuse(f"expected the name of a device: at most {LONGEST_NAME:,} characters of UTF-8", 2 * number)
            if name in self.names:
                self.refuse(f"device {name!r} is there twice", 2 * number)
            if number >= MOST_DEVICES:
                self.refuse(f"has more than {MOST_DEVICES:,} devices", 2 * number)
            self.names[name] = number
            self.blocks.append(np.empty((0, 2)))
            if isinstance(value, tuple):
                self.described(name, value, 2 * number + 1)
            else:
                self.intervals(name, value, 2 * number + 1)
        if not self.names:
            self.refuse("has no devices")
        owners = np.repeat(np.arange(len(self.names)), [len(block) for block in self.blocks])
        if self.events:
            if len(owners):
                self.refuse("has intervals for some devices and messages for others")
            self.events.stated = {self.events.names[name]: instants for name, instants in self.stated.items()}
            return self.events
        seen = np.full((len(self.names), 3), np.nan)
        for name, instants in self.stated.items():
            seen[self.names[name], :2] = [value for _, value in instants]
        starts, ends = np.concatenate(self.blocks).T
        codes = np.zeros(len(owners), dtype=np.int8)
        window = seen if self.stated else None
        return TraceRows(tuple(self.names), owners, starts, ends, codes, self.source, seen=window)

    def intervals(self, name: str, pairs: Any, *place: int) -> None:
        if not isinstance(pairs, list):
            self.refuse(f"expected the list of intervals of device {name!r}; {_SHAPE}", *place)
        if pairs[:1] in (["on"], ["off"]):
            pairs = self.changes(name, pairs, *place)
        for number, pair in enumerate(pairs):
            if not isinstance(pair, list) or len(pair) != 2 or {*map(type, pair)} - {float, NoneType}:
                self.refuse(f"expected an interval [start, end] of device {name!r}; {_SHAPE}", *place, number)
        times = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        impossible = np.flatnonzero(~(np.abs(times) <= LONGEST_S).all(axis=1))
        if len(impossible) and not self.lenient:
            start, end = times[impossible[0]].tolist()
            self.refuse(
                f"device {name!r} has the interval [{start:g}, {end:g}], which is impossible: times are seconds, "
                "finite and within 100 years of the base; with --policy lenient such intervals are dropped",
                *place,
                int(impossible[0]),
            )
        self.blocks[-1] = times

    def changes(self, name: str, value: list[Any], *place: int) -> list[list[float]]:
        """Return the intervals of a device by its first state and the times at which it changes."""
        times = value[1] if len(value) == 2 else None
        if not isinstance(times, list) or {*map(type, times)} - {float} or times != sorted(times) or times[:1] < [0.0]:
            message = f'expected ["{value[0]}", [t1, t2, ...]] of device {name!r}: times from second 0 on, in order'
            self.refuse(message, *place)
        self.stated[name] = [("number", 0.0), ("number", times[-1])]
        edges = ([0.0] if value[0] == "on" else []) + times
        return [[start, end] for start, end in zip(edges[::2], edges[1::2], strict=False)]

    def described(self, name: str, pairs: Sequence[tuple[str, Any]], place: int) -> None:
        keys, instants = [key for key, _ in pairs], [("number", np.nan)] * 2
        lists = keys.count("messages") + keys.count("ready_time")
        if lists != 1:
            none = f"device {name!r} has no messages and no ready_time"
            self.refuse(f"device {name!r} has more than one of messages and ready_time" if lists else none, place)
        for number, (key, value) in enumerate(pairs):
            if key == "ready_time":
                self.intervals(name, value, place, 2 * number + 1)
            elif key == "messages":
                if not isinstance(value, str):
                    self.refuse(f"messages of device {name!r} must be text", place, 2 * number + 1)
                try:
                    self.events.add(value, name)
                except TraceError as error:
                    self.refuse(error.message, place, 2 * number + 1)
            elif key in _STATED and value is not None:
                instants[_STATED.index(key)] = kind, seconds = read_instant(str(value))
                if not kind or not np.isfinite(seconds) or (kind == "number" and abs(seconds) > LONGEST_S):
                    message = f"{key} must be a number of seconds or a date such as 2020-01-31 08:15:00"
                    self.refuse(message, place, 2 * number + 1)
        if not all(np.isnan(value) for _, value in instants):
            self.stated[name] = instants

    def refuse(self, message: str, *numbers: int) -> NoReturn:
        """Refuse what is at some number in the outermost value, at the next in that, and so on; names count, too."""
        at = next(_BETWEEN.finditer(self.text)).end()
        for number in numbers:
            at = next(_BETWEEN.finditer(self.text, at + 1)).end()
            for _ in range(number):
                at = next(_BETWEEN.finditer(self.text, _JSON.raw_decode(self.text, at)[1])).end()
        raise TraceError(message, self.source, *position(self.text, at))


def position(text: str, at: int) -> tuple[int, int]:
    """Return the line and the column of a character, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
