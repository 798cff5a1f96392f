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

from fedsim.availability.trace.extent import bulk
from fedsim.availability.trace.faults import LONGEST_S, MOST_DEVICES, TraceError
from fedsim.availability.trace.rows import CONDITIONS, Rows

_CHARGING, _NOT_CHARGING = {"charging": True}, {"charging": False}
_NETWORK, _NO_NETWORK = {"network": True}, {"network": False}
_IDLE, _IN_USE = {"idle": True}, {"idle": False}
_NOTHING: dict[str, bool] = {}
EVENTS: dict[str, dict[str, bool]] = {
    "battery_charged_on": _CHARGING,
    "battery_charged_off": _NOT_CHARGING,
    "wifi": _NETWORK,
    "unknown": _NO_NETWORK,
    "2g": _NO_NETWORK,
    "3g": _NO_NETWORK,
    "4g": _NO_NETWORK,
    "5g": _NO_NETWORK,
    "screen_off": _IDLE,
    "screen_lock": _IDLE,
    "screen_on": _IN_USE,
    "screen_unlock": _IN_USE,
    "phone_off": _NOT_CHARGING | _NO_NETWORK | _IN_USE,
    "phone_on": _NOTHING,
    "battery_low": _NOTHING,
    "battery_okay": _NOTHING,
}
"""What each event means. Battery levels such as ``85.0%`` mean nothing here either."""
_CODES = {event: code for code, event in enumerate(EVENTS)}
_LEVEL = _CODES["battery_okay"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN = -1
_KINDS = {"number": "a number", "civil": "a date without a zone", "zoned": "a date with a zone"}


@dataclass
class Events:
    """The events of all devices, gathered line by line.

    Attributes
    ----------
    source
        The file, for messages.
    kind
        How the instants are written: ``number``, ``civil`` (no zone) or ``zoned``; empty before the first.
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
        """Take some lines.

        Parameters
        ----------
        text
            ``timestamp<TAB>event`` in each line, or ``device<TAB>timestamp<TAB>event`` where no device is given.
        device
            Whose lines they are.
        inside
            The line of a file in which all of the text is one value; else its first line is line 1.

        Raises
        ------
        TraceError
            With the place of what is wrong.
        """
        name, place, skipped = device or "", 0, 0
        if device is not None:
            self.names.setdefault(device, len(self.names))

        def refuse(message: str) -> NoReturn:
            raise TraceError(message, self.source, place, skipped + 1)

        for number, written in enumerate(text.split("\n"), 1):
            if not written.strip():
                continue
            place, line = inside or number, written
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
        """Return the base where none is given: midnight before the first event; None where times are bare numbers.

        Events far from all others do not count.
        """
        if self.kind == "number" or not self.times:
            return None
        return _EPOCH + timedelta(days=bulk(np.asarray(self.times))[0] // 86_400)

    def rows(self, base: datetime | None) -> tuple[Rows, int]:
        """Return the intervals in which each condition holds, and how many events were out of order.

        Parameters
        ----------
        base
            The instant of second 0. Times without a zone are read in the base's own offset from UTC.
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
        return Rows(tuple(self.names), devices, starts, ends, conditions, self.source), int(unordered.sum())


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
