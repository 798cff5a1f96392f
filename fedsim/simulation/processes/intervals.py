"""The intervals of each device for its process, worked out for all of them at once, a window at a time."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.availability.always import AlwaysAvailable
from fedsim.availability.cells import Cells
from fedsim.availability.model import Intervals
from fedsim.availability.shocks import Availability, ShockedAvailability
from fedsim.common.arrays import Floats

_WINDOW = 86_400.0


class _Window(NamedTuple):
    """When devices are available before `until`: that of client i from place offsets[i] to offsets[i + 1].

    From `leaves_s` on it is never available again; infinite, where that is not before `until`.
    """

    until: float
    offsets: Sequence[int]
    starts: Sequence[float]
    ends: Sequence[float]
    leaves_s: Floats


class DeviceIntervals:
    """The intervals of all devices, for processes that go through them together.

    Parameters
    ----------
    devices
        Availability models and places.
    availability
        When they are available.
    since
        Instant at which the processes begin.
    horizon
        When the run is stopped: no window looks further ahead before that.
    """

    def __init__(self, devices: Cells, availability: Availability, since: float, horizon: float) -> None:
        self._since, self._horizon = since, horizon
        self._availability = availability
        shocked = isinstance(availability, ShockedAvailability)
        always = np.array([isinstance(model, AlwaysAvailable) and not shocked for model in devices.models])
        self._always = always[devices.of_client]
        self._followed, self._changing = np.flatnonzero(availability.followed), np.flatnonzero(~self._always)
        self._window: _Window | None = None

    def of(self, client: int) -> Intervals:
        """Return the intervals of one device, in pieces as told in `AvailabilityModel`.

        The next one must be asked for at the instant at which the last one ends, not before: all devices share the
        window, and the first one that is through with it has the next worked out for all.
        """
        if self._always[client]:
            yield 0.0, math.inf
            return
        now = self._since
        while True:
            window = self._window
            if window is None or window.until <= now:
                window = self._window = self._look(now)
            for place in range(window.offsets[client], window.offsets[client + 1]):
                now = window.ends[place]
                yield window.starts[place], now
            if (leaves_s := float(window.leaves_s[client])) < math.inf:
                if leaves_s > now:  # a shock has it out until its own life ends
                    yield leaves_s, leaves_s
                return
            now = window.until
            yield now, now

    def _look(self, now: float) -> _Window:
        until = now + _WINDOW
        if now < self._horizon <= until:
            until = math.nextafter(self._horizon, math.inf)
        self._availability.at(self._followed, now)  # so that they are followed from here on, and not from time 0
        who, starts, ends = self._availability.spells(self._changing, now, until)
        order = np.lexsort((starts, who))
        offsets = np.zeros(len(self._always) + 1, dtype=np.int64)
        offsets[1:] = np.cumsum(np.bincount(self._changing[who], minlength=len(self._always)))
        leaves_s = np.full(len(self._always), np.inf)
        leaves_s[self._changing] = self._availability.leaves(self._changing, now, until)
        leaves_s[leaves_s > until] = np.inf
        # Views of the memory give single numbers faster than arrays do.
        return _Window(until, offsets.data, starts[order].data, ends[order].data, leaves_s)
