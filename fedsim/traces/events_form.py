"""Traces as text: lines of ``timestamp<TAB>event`` for one device, or ``device<TAB>timestamp<TAB>event`` for many.

An event sets conditions on or off, and they stay so until the next event that says otherwise. Before its first event a
condition is off, and after the last line of a device nothing is known, so that its intervals end there.
"""

from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import numpy as np
import polars as pl

from fedsim.availability.trace.rows import CONDITIONS, LONGEST_S, MOST_DEVICES, TraceError, TraceRows
from fedsim.availability.trace.unions import bulk

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
        held = pl.concat([_holding(events, code) for code in range(1, len(CONDITIONS))])
        devices, starts, ends, conditions = (held[name].to_numpy() for name in ("device", "time", "end", "condition"))
        return TraceRows(tuple(self.names), devices, starts, ends, conditions, self.source), int(unordered.sum())


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
