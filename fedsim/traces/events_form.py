"""Traces as text: lines of ``timestamp<TAB>event`` for one device, or ``device<TAB>timestamp<TAB>event`` for many.

An event sets conditions on or off, and they stay so until the next event that says otherwise. Before its first event a
condition is off, and after the last line of a device nothing is known, so that its intervals end there.
"""

from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np

from fedsim.availability.trace.faults import LONGEST_S, MOST_DEVICES, MOST_INTERVALS, TraceError
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
_EPOCH = datetime(1970, 1, 1)
_UNKNOWN = -1


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

    def add_device(self, name: str, text: str, line: int = 1, *, inside: bool = False) -> None:
        """Take the lines ``timestamp<TAB>event`` of one device; `inside` a value of another file they have no line."""
        device = self.number(name, line)
        for offset, written in enumerate(text.split("\n")):
            if written.strip():
                self.add(device, written, line if inside else line + offset)

    def add_lines(self, text: str) -> None:
        """Take the lines ``device<TAB>timestamp<TAB>event``."""
        for line, written in enumerate(text.split("\n"), 1):
            if written.strip():
                name, tab, rest = written.partition("\t")
                if not tab or not name.strip():
                    raise TraceError("expected device<TAB>timestamp<TAB>event", self.source, line, 1)
                self.add(self.number(name.strip(), line), rest, line, len(name) + 1)

    def number(self, name: str, line: int) -> int:
        """Return the number of a device, new or known."""
        if len(self.names) >= MOST_DEVICES and name not in self.names:
            raise TraceError(f"has more than {MOST_DEVICES:,} devices", self.source, line, 1)
        return self.names.setdefault(name, len(self.names))

    def add(self, device: int, written: str, line: int, skipped: int = 0) -> None:
        """Take one event."""
        stamp, tab, event = written.partition("\t")
        if not tab or "\t" in event.strip():
            raise TraceError(f"expected timestamp<TAB>event, found {written[:40]!r}", self.source, line, skipped + 1)
        word = event.strip().lower()
        code = _CODES.get(word, _LEVEL if word.endswith("%") else _UNKNOWN)
        kind, instant = _instant(stamp.strip())
        if not kind:
            message = f"expected a time such as 2020-01-31 08:15:00 or a number of seconds, found {stamp[:40]!r}"
            raise TraceError(message, self.source, line, skipped + 1)
        if self.kind and kind != self.kind:
            message = f"writes a time as {_KINDS[kind]}, and earlier ones as {_KINDS[self.kind]}"
            raise TraceError(message, self.source, line, skipped + 1)
        self.kind = kind
        if code == _UNKNOWN:
            self.unknown += 1
        if kind == "number" and not abs(instant) <= LONGEST_S:
            if not self.lenient:
                message = (
                    f"the time {stamp.strip()[:40]} is impossible: times are seconds, finite and within 100 years of "
                    "the base; with --policy lenient such events are dropped"
                )
                raise TraceError(message, self.source, line, skipped + 1)
            self.impossible += 1
            return
        if len(self.times) >= MOST_INTERVALS:
            raise TraceError(f"has more than {MOST_INTERVALS:,} events", self.source, line, 1)
        self.devices.append(device)
        self.times.append(instant)
        self.codes.append(code)

    def base(self) -> datetime | None:
        """Return the base where none is given: midnight before the first event; None where times are bare numbers."""
        if self.kind == "number" or not self.times:
            return None
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=min(self.times) // 86_400)

    def rows(self, base: datetime | None) -> tuple[Rows, int]:
        """Return the intervals in which each condition holds, and how many events were out of order.

        Parameters
        ----------
        base
            The instant of second 0. Times without a zone are read in the base's own offset from UTC.
        """
        devices, codes = np.asarray(self.devices, dtype=np.int64), np.asarray(self.codes)
        times = np.asarray(self.times, dtype=np.float64)
        if base is not None and self.kind == "civil":
            times = times - (base.replace(tzinfo=None) - _EPOCH).total_seconds()
        elif base is not None and self.kind == "zoned":
            times = times - base.timestamp()
        unordered = int(((np.diff(devices) == 0) & (np.diff(times) < 0)).sum())
        order = np.lexsort((times, devices))
        devices, codes, times = devices[order], codes[order], times[order]
        bounds = np.searchsorted(devices, np.arange(len(self.names) + 1))
        closing = np.array([times[b - 1] if b > a else np.nan for a, b in pairwise(bounds.tolist())])
        parts = [_holding(devices, codes, times, closing, condition) for condition in CONDITIONS[1:]]
        # Every device is named once without times: whoever has no interval is known nevertheless.
        everyone = np.arange(len(self.names))
        nothing = np.full(len(everyone), np.nan)
        return Rows(
            names=tuple(self.names),
            devices=np.concatenate([*(part[0] for part in parts), everyone]),
            starts=np.concatenate([*(part[1] for part in parts), nothing]),
            ends=np.concatenate([*(part[2] for part in parts), nothing]),
            conditions=np.repeat([1, 2, 3, 1], [*(len(part[0]) for part in parts), len(everyone)]).astype(np.int8),
            source=self.source,
        ), unordered


_KINDS = {"number": "a number", "civil": "a date without a zone", "zoned": "a date with a zone"}


def _holding(
    devices: np.ndarray, codes: np.ndarray, times: np.ndarray, closing: np.ndarray, condition: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (device, start, end) of every stretch in which a condition holds."""
    on = [code for event, code in _CODES.items() if EVENTS[event].get(condition) is True]
    off = [code for event, code in _CODES.items() if EVENTS[event].get(condition) is False]
    of_it = np.isin(codes, [*on, *off])
    devices, state, times = devices[of_it], np.isin(codes[of_it], on), times[of_it]
    new = np.concatenate([[True], devices[1:] != devices[:-1]])[: len(devices)]
    changes = np.flatnonzero(new | np.concatenate([[True], state[1:] != state[:-1]])[: len(devices)])
    starting = changes[state[changes]]
    follower = np.searchsorted(changes, starting, side="right")
    after = np.concatenate([changes, [-1]])[follower]
    ended = (after >= 0) & (devices[after] == devices[starting]) if len(devices) else np.zeros(0, dtype=np.bool_)
    ends = np.where(ended, times[after], closing[devices[starting]]) if len(devices) else np.zeros(0)
    return devices[starting], times[starting], ends


def _instant(text: str) -> tuple[str, float]:
    """Return how an instant is written and its number of seconds, since 1970 unless it is a number."""
    try:
        return "number", float(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return "", 0.0
    if instant.tzinfo is None:
        return "civil", (instant - _EPOCH).total_seconds()
    return "zoned", (instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
